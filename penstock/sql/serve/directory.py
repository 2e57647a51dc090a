"""Checks passwords by a directory (LDAP): a simple bind with the user's name, by Java's client and its trust store."""

from __future__ import annotations

import logging
from typing import Any

from py4j.protocol import Py4JJavaError

from penstock.sql.serve.settings import Ldap

__all__ = ["Directory"]

CONNECT_TIMEOUT_MS = 5_000
READ_TIMEOUT_MS = 10_000
REFUSED = "javax.naming.AuthenticationException"

log = logging.getLogger(__name__)


class Directory:
    """A directory that is asked at each log-in. Any thread may ask."""

    def __init__(self, jvm: Any, ldap: Ldap) -> None:
        self._jvm = jvm
        self._ldap = ldap

    def lets_in(self, name: str, password: str) -> bool:
        """Tell whether the directory takes the password; one that does not answer lets nobody in."""
        # a bind without a password succeeds as nobody
        if not password or "\0" in password:
            return False
        return any(self._binds(principal, password) for principal in self._principals(name))

    def _principals(self, name: str) -> list[str]:
        """The names that are bound: by the patterns, with the domain, or the user's name as it is."""
        if self._ldap.user_pattern is not None:
            escaped = self._jvm.javax.naming.ldap.Rdn.escapeValue(name)
            return [p.replace("%s", escaped) for p in self._ldap.user_pattern.split(":") if p]
        if self._ldap.domain is not None and "@" not in name:
            return [f"{name}@{self._ldap.domain}"]
        return [name]

    def _binds(self, principal: str, password: str) -> bool:
        environment = self._jvm.java.util.Hashtable()
        for key, value in {
            "java.naming.factory.initial": "com.sun.jndi.ldap.LdapCtxFactory",
            "java.naming.provider.url": self._ldap.url,
            "java.naming.security.authentication": "simple",
            "java.naming.security.principal": principal,
            "java.naming.security.credentials": password,
            "com.sun.jndi.ldap.connect.timeout": str(CONNECT_TIMEOUT_MS),
            "com.sun.jndi.ldap.read.timeout": str(READ_TIMEOUT_MS),
        }.items():
            environment.put(key, value)
        try:
            self._jvm.javax.naming.directory.InitialDirContext(environment).close()
        except Py4JJavaError as error:
            cause = error.java_exception
            if cause.getClass().getName() != REFUSED:
                log.error("nobody can log in by %s: %s", self._ldap.url, cause)  # noqa: TRY400
            return False
        return True
