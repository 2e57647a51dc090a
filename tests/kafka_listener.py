"""A broker with a second listener, for tests that need what the plain one has not: a proxy in between, or log-ins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.connector.kafka.broker.broker import EmbeddedBroker, free_port

HOST = "127.0.0.1"
NAME = "SECOND"


class BrokerWithListener(EmbeddedBroker):
    """Beside its own listener it has one more, which tells its clients to come to `advertised_port`."""

    def __init__(
        self,
        data_dir: Path,
        *,
        protocol: str = "PLAINTEXT",
        advertised_port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`protocol` is the security protocol of the second listener; it advertises its own port by default."""
        super().__init__(data_dir, settings=settings)
        self.second_port = free_port()
        self._protocol = protocol
        self._advertised_port = advertised_port or self.second_port

    @property
    def second_bootstrap(self) -> str:
        """Where clients of the second listener begin."""
        return f"{HOST}:{self._advertised_port}"

    def _properties(self) -> str:
        lines = dict(line.split("=", 1) for line in super()._properties().splitlines())
        for key, port in (
            ("listeners", self.second_port),
            ("advertised.listeners", self._advertised_port),
        ):
            lines[key] += f",{NAME}://{HOST}:{port}"
        lines["listener.security.protocol.map"] = (
            f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{NAME}:{self._protocol}"
        )
        return "".join(f"{key}={value}\n" for key, value in lines.items())
