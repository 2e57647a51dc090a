"""`penstock serve`: the catalog over JDBC and ODBC, by Spark's Thrift server in the process of a session.

`settings` holds the options. Clients connect to `front`: `password_file` and `ldap` log them in, `tls` has the
keys, `connection_limits` bounds connections and log-ins, `hive_calls`, `thrift_codec` and `metadata_rows` choose what
reaches Spark and what comes back. `server` starts and stops Spark's server, which accepts only the front
(`ldap`). `guard` restricts clients to reading what is published,
`primary_keys` reports the keys, `server` is the whole.
"""
