"""Sources that are read as they are at one moment: a query reads them anew in each batch, and never follows them."""

from __future__ import annotations

from penstock.connector.changelog import ChangelogMode

__all__ = ["ReadOnce"]


class ReadOnce:
    """What such engine sources share (`contract.EngineSource`); their `frame` refuses streams."""

    __slots__ = ()

    @property
    def bounded(self) -> bool:
        """It ends with what is there."""
        return True

    @property
    def changes(self) -> ChangelogMode:
        """Rows as they are now."""
        return ChangelogMode.INSERT_ONLY
