"""The base of changelog formats in JSON: options, checks, metadata.

Each format adds its envelope layout, and options of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from penstock.catalog.model.types import LogicalType
from penstock.catalog.options.option import Option, Resolved
from penstock.connector.arrow.types import arrow_schema
from penstock.connector.changelog import ChangelogMode
from penstock.connector.formats.changelog.envelopes import MetadataField
from penstock.connector.formats.contract import Decoder, Fields
from penstock.connector.formats.json.format import check_keys
from penstock.connector.formats.json.options import (
    JsonSettings,
    envelope_options,
    envelope_settings,
)

__all__ = ["ChangeFormat"]


class ChangeFormat(ABC):
    """A Format whose records are changes of rows, of every kind."""

    identifier: ClassVar[str]
    facts: ClassVar[Mapping[str, MetadataField]]
    """The metadata columns by their keys."""

    changes = ChangelogMode.ALL

    @property
    def metadata(self) -> Mapping[str, LogicalType]:
        """The types of the metadata columns."""
        return {key: fact.type for key, fact in self.facts.items()}

    def own_options(self, base: str) -> tuple[Option[Any], ...]:
        """Return the options that no other of these formats has; `base` begins their keys."""
        del base
        return ()

    @abstractmethod
    def make_decoder(
        self,
        fields: Fields,
        facts: Mapping[str, MetadataField],
        settings: JsonSettings,
        resolved: Resolved,
        base: str,
    ) -> Decoder:
        """Make a decoder of `fields` and behind them `facts`. Raises OptionError."""

    def options(self, prefix: str = "") -> tuple[Option[Any], ...]:
        """Return the descriptors of the options, with full keys."""
        base = self._base(prefix)
        return (*self.own_options(base), *envelope_options(base))

    def check(self, fields: Fields, resolved: Resolved, *, prefix: str = "") -> None:
        """Check options and columns. Raises OptionError, DefinitionError or UnsupportedError."""
        self.decoder(fields, resolved, prefix=prefix)

    def skips_bad_records(self, resolved: Resolved, *, prefix: str = "") -> bool:
        """Return whether the format's ignore-parse-errors is set."""
        return envelope_settings(resolved, self._base(prefix)).ignore_parse_errors

    def decoder(
        self,
        fields: Fields,
        resolved: Resolved,
        *,
        prefix: str = "",
        metadata: Sequence[str] = (),
    ) -> Decoder:
        """Make a decoder of `fields` and the columns `metadata`."""
        arrow_schema(fields)
        for name, logical in fields:
            check_keys(name, logical, self.identifier)
        base = self._base(prefix)
        facts = {key: self.facts[key] for key in metadata}
        return self.make_decoder(fields, facts, envelope_settings(resolved, base), resolved, base)

    def _base(self, prefix: str) -> str:
        return f"{prefix}{self.identifier}."
