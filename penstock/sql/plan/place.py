"""A query's name and its checkpoint's directory, as they were chosen (`query_place.py`)."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.sql.plan.checkpoint_identity import CheckpointIdentity

__all__ = ["QueryPlace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlace:
    """`location` is the checkpoint's directory, `canonical` the one that its names have.

    They differ for a checkpoint that an earlier version put elsewhere. `before`: the statement in the checkpoint,
    where it is another one.
    """

    location: str
    canonical: str
    identity: CheckpointIdentity
    before: str | None = None

    @property
    def job(self) -> str:
        """The query's name among all pipelines: what one runner at a time may hold."""
        return f"{self.identity.pipeline}/{self.identity.query}"

    @property
    def leases(self) -> tuple[str, ...]:
        """What is held while it runs: its name; and its directory where that may be reached by another name."""
        if self.location == self.canonical:
            return (self.job,)
        return tuple(dict.fromkeys((self.job, "/".join(self.location.rsplit("/", 2)[1:]))))
