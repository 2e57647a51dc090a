"""Windows over instants, in the session's time zone: TUMBLE, HOP and CUMULATE over TIMESTAMP_LTZ, as in Flink.

Each engine cuts windows in UTC, with the offset that the call gives. Local midnight is at one time of UTC where the
zone has one offset: then that goes into the call, so that all engines and the text of a checkpoint have it. Windows of
a zone with several are the same where their size divides the differences of these, and are refused otherwise.
SESSION hangs on no zone.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from zoneinfo import ZoneInfo

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.sql.dialect import WindowTable, window_tables
from penstock.sql.dialect.windows.window_tables import PARAMETERS, WindowKind
from penstock.sql.settings import FIXED_ZONE

_FIRST = datetime(2000, 1, 1, tzinfo=UTC)
"""Streams have no older events, and zones such as Asia/Shanghai had other offsets before."""

_DAYS = 40 * 365
"""Up to 2039: later years repeat the offsets of the zone's last rule."""


def move_windows(query: exp.Expr, time_zone: str) -> None:
    """Give the windows of a typed query over instants the offset of the time zone, in place.

    Raises UnsupportedError where the zone has offsets by which windows begin at several times of UTC.
    """
    if time_zone == "UTC":
        return
    for window in window_tables(query):
        time = _time(window)
        if window.kind is WindowKind.SESSION or time.is_type(exp.DType.TIMESTAMPNTZ):
            continue
        moved = {offset % window.size_ms for offset in zone_offsets_ms(time_zone)}
        if moved == {0}:
            continue
        if not time.is_type(exp.DType.TIMESTAMPLTZ):
            raise _unknown(window, time_zone)
        if len(moved) > 1:
            raise _several(window, time_zone)
        period = window.slide_ms or window.size_ms
        _put_offset(window, (window.offset_ms - moved.pop()) % period)


@cache
def zone_offsets_ms(time_zone: str) -> frozenset[int]:
    """Return the offsets from UTC that a time zone has from 2000 on, in milliseconds.

    The offset of each day is looked at, which takes 25 ms: for windows alone.
    """
    fixed = FIXED_ZONE.fullmatch(time_zone)
    if fixed is not None:
        sign, hours, minutes = fixed.groups(default="0")
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        zone = timezone(-offset if sign == "-" else offset)
        return frozenset({_millis(zone.utcoffset(None))})
    rules = ZoneInfo(time_zone)
    days = (_FIRST + timedelta(days=number) for number in range(_DAYS))
    return frozenset(_millis(day.astimezone(rules).utcoffset()) for day in days)


def _millis(offset: timedelta | None) -> int:
    assert offset is not None, "a time zone has an offset at each time"
    return offset // timedelta(milliseconds=1)


def _time(window: WindowTable) -> exp.Column:
    """Return the time column of DESCRIPTOR, which has its type."""
    columns = (argument.find(exp.Column) for argument in window.node.this.expressions[1:])
    found: exp.Column = next(c for c in columns if c is not None and c.name == window.time_column)
    return found


def _put_offset(window: WindowTable, offset_ms: int) -> None:
    call = window.node.this
    seconds, rest = divmod(offset_ms, 1000)
    length = exp.Interval(
        this=exp.Literal.string(f"{seconds}.{rest:03d}" if rest else str(seconds)),
        unit=exp.Var(this="SECOND"),
    )
    position = PARAMETERS[window.kind].index("OFFSET")
    arguments = list(call.expressions)
    for number, argument in enumerate(arguments):
        if isinstance(argument, exp.Kwarg) and argument.name == "OFFSET":
            argument.set("expression", length)
            return
        if not isinstance(argument, exp.Kwarg) and number == position:
            argument.replace(length)
            return
    if any(isinstance(argument, exp.Kwarg) for argument in arguments):
        name = exp.to_identifier("OFFSET", quoted=True)
        call.append("expressions", exp.Kwarg(this=name, expression=length))
    else:
        call.append("expressions", length)


def _unknown(window: WindowTable, time_zone: str) -> UnsupportedError:
    name = window.time_column
    return UnsupportedError(
        f"whether '{name}' is a TIMESTAMP or a TIMESTAMP_LTZ is unknown, and {window.kind} of it hangs on that in the "
        f"time zone {time_zone}",
        hint=f"CAST({name} AS TIMESTAMP(3)) in the table, or SET 'table.local-time-zone' = 'UTC'",
        span=window.span,
    )


def _several(window: WindowTable, time_zone: str) -> UnsupportedError:
    name = window.time_column
    return UnsupportedError(
        f"{window.kind} of {window.size_ms / 1000:g} s over '{name}', a TIMESTAMP_LTZ, is not supported in the time "
        f"zone {time_zone}: its offset from UTC changes, and local windows are not of one length",
        hint=f"add local_time AS CAST({name} AS TIMESTAMP(3)) to the table, with the WATERMARK and the windows on "
        "local_time; or SET 'table.local-time-zone' = 'UTC' for windows of UTC",
        span=window.span,
    )
