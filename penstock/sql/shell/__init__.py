"""The interactive shell behind `penstock shell`: statements are typed, run one at a time, and shown.

`console.py` is the loop at the terminal and collects lines into statements, `completion.py` knows what may come next,
`session.py` runs a statement (Spark starts with the first that needs it).
"""
