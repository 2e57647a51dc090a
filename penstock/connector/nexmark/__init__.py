"""The connector `nexmark`: the persons, auctions and bids of the Nexmark benchmark, as one table of events.

`settings` reads the options and checks the columns, `events` generates them, `connector` says which there are;
`connector/generated` plans and reads them. An event is a function of its number and of the options.
"""
