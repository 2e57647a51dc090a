"""What `penstock kafka transactions ls` prints: slots and partitions that are held back, as a document and as lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.connector.kafka.sink.lingering import HeldBack, Slot
    from penstock.connector.kafka.sink.marker import Marker

__all__ = ["slots_document", "slots_lines"]


def slots_document(found: Sequence[Slot], held: Sequence[HeldBack]) -> object:
    """Write them for programs. `rows` is null where the marker was set by hand."""
    return {
        "slots": [
            {
                "transactional_id": slot.transactional_id,
                "last_batch": slot.marker.next_batch - 1 if slot.marker else None,
                "rows": slot.marker.rows if slot.marker and slot.marker.digest else None,
            }
            for slot in found
        ],
        "held_back": [
            {
                "topic": h.partition.topic,
                "partition": h.partition.partition,
                "stable": h.stable,
                "end": h.end,
            }
            for h in held
        ],
    }


def slots_lines(found: Sequence[Slot], held: Sequence[HeldBack]) -> list[str]:
    """Write them for people, a line each."""
    lines = [f"{slot.transactional_id}  {_last(slot.marker)}" for slot in found]
    lines += [
        f"open transaction in {h.partition.topic}/{h.partition.partition}: committed records end at {h.stable}, "
        f"the partition at {h.end}"
        for h in held
    ]
    return lines or ["nothing: no such ids, and no open transaction"]


def _last(marker: Marker | None) -> str:
    if marker is None:
        return "no marker under these topics"
    batch = f"batch {marker.next_batch - 1}"
    # `repair` knows where to go on, and nothing of the batch before
    return f"{batch}, {marker.rows} rows" if marker.digest else f"{batch}, by a marker set by hand"
