"""`penstock serve`: the catalog over JDBC and ODBC, by Spark's Thrift server in the process of a session.

`settings` says what is asked for, `users` and `bind_server` log users in, `keystore` gives TLS its keys, `guard`
keeps clients to reading, `primary_keys` tells them the keys, `thrift` starts and stops the server, `serving` is
the whole.
"""
