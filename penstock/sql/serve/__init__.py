"""`penstock serve`: the catalog over JDBC and ODBC, by Spark's Thrift server in the process of a session.

`settings` says what is asked for. `front` is what clients connect to: `sasl`, `users`, `directory` and `login_limits`
log them in, `tls` has the keys, `guests` bounds the connections, `hive_calls` and `thrift_codec` choose what reaches
Spark, `client_errors` what is told of errors. `bind_server` lets the front in at Spark's server, which `thrift` starts
and stops. `guard` keeps clients to reading what is published, `commands` says which commands do that, `primary_keys`
tells them the keys, `serving` is the whole.
"""
