"""The errors of a filesystem scan, worded in one place: what happened, which file, what to do."""

from __future__ import annotations

from penstock.catalog.errors import BadRecordError, DataLossError, UnsupportedError

__all__ = ["corrupt", "line_too_long", "not_readable", "rewritten", "shortened", "vanished"]

_KEEP = (
    "keep files as they are until they are read, and give new ones new names; start over with --from-scratch, "
    "which sets the checkpoint aside, or under another SET 'pipeline.name'"
)


def vanished(path: str) -> DataLossError:
    """A file was listed and is gone."""
    return DataLossError(f"file {path} was removed before it was read to its end", hint=_KEEP)


def shortened(path: str, known: int, found: int) -> DataLossError:
    """A file has fewer bytes than when it was listed."""
    return DataLossError(
        f"file {path} had {known} bytes when it was planned and now has {found}: it was rewritten",
        hint=_KEEP,
    )


def rewritten(path: str) -> DataLossError:
    """A file has its size and another modification time."""
    return DataLossError(
        f"file {path} was modified after it was listed, so what was read of it may not be what it holds",
        hint=_KEEP,
    )


def corrupt(path: str, reason: str) -> BadRecordError:
    """A compressed file is damaged, or is none."""
    return BadRecordError(
        f"file {path} cannot be decompressed: {reason}",
        hint="a file that is still being written belongs under a name that begins with '.' or '_'",
    )


def line_too_long(path: str, position: int, most: int) -> BadRecordError:
    """A line has no end in sight."""
    return BadRecordError(
        f"file {path}, byte {position}: a line of more than {most} bytes",
        hint="is this a file of lines?",
    )


def not_readable(path: str, ending: str, known: str) -> UnsupportedError:
    """A file is compressed in a way that is not read here."""
    return UnsupportedError(
        f"file {path}: files that end in '{ending}' are not read",
        hint=f"compressed files may end in {known}; or leave it out with 'source.path.regex-pattern'",
    )
