"""Check the hints behind SELECT: which exist, what they name, and the options of LOOKUP and STATE_TTL.

Flink's rules (FlinkHintStrategies, QueryHintsResolver, LookupJoinHintOptions): a hint belongs to its own SELECT
and names its relations by alias, or by the table's name where there is none. The last value of a repeated key
counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    OptionError,
    Span,
    UnknownObjectError,
    UnsupportedError,
    did_you_mean,
)
from penstock.catalog.options.option import (
    BOOLEAN,
    DURATION,
    INT,
    STRING,
    Option,
    enum_type,
    optional,
    resolve,
)
from penstock.connector.lookup.contract import MissRetry
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.traversal import find_nodes

LOOKUP = "LOOKUP"

TABLE = "table"

_TABLE = Option(
    key=TABLE, type=STRING, default="", doc="The table that is looked up.", required=True
)

_ASYNC = optional(BOOLEAN, "async", "Whether keys are asked for while others are waited for.")

_CAPACITY = optional(INT, "capacity", "How many keys are asked for at the same time.")

_PREDICATE = optional(STRING, "retry-predicate", "When to ask again: lookup_miss.")

_STRATEGY = optional(enum_type("fixed_delay"), "retry-strategy", "How to wait: fixed_delay.")

_DELAY = optional(DURATION, "fixed-delay", "How long to wait before asking again.")

_ATTEMPTS = optional(INT, "max-attempts", "How often to ask again.")

_RETRY = (_PREDICATE, _STRATEGY, _DELAY, _ATTEMPTS)

_OPTIONS = (
    _TABLE,
    _ASYNC,
    optional(enum_type("ordered", "allow_unordered"), "output-mode", "Whether rows stay in order."),
    _CAPACITY,
    optional(DURATION, "timeout", "How long the answer for a key may take."),
    optional(BOOLEAN, "shuffle", "Whether rows of one key come to one task."),
    *_RETRY,
)

MISS = "lookup_miss"


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupOptions:
    """The content of a hint LOOKUP: the table's name in the query, and the retry of keys without rows."""

    table: str
    retry: MissRetry | None = None


def lookup_options(pairs: Mapping[str, str]) -> LookupOptions:
    """Check the options of a hint. Raises OptionError for what Flink refuses."""
    owner = f"the hint {LOOKUP}"
    words = {key: text.replace("-", "_") if key in _WORDS else text for key, text in pairs.items()}
    options = resolve(words, _OPTIONS, owner=owner)
    if options.get(_ASYNC):
        options.at_least_one(_CAPACITY, owner=owner)
    table = options.get(_TABLE)
    present = [option.key for option in _RETRY if options.is_set(option)]
    if not present:
        return LookupOptions(table=table)
    missing = [option.key for option in _RETRY if not options.is_set(option)]
    if missing:
        raise OptionError(
            f"{owner}: '{present[0]}' needs {', '.join(repr(key) for key in missing)} too",
            hint="asking again takes all four: 'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay', "
            "'fixed-delay' = '10 s', 'max-attempts' = '3'",
        )
    predicate = options.get(_PREDICATE)
    if predicate.lower() != MISS:
        raise OptionError(
            f"{owner}: option 'retry-predicate' = '{predicate}' is not '{MISS}'",
            hint="keys are asked for again where no row has them",
        )
    attempts = options.at_least_one(_ATTEMPTS, owner=owner)
    return LookupOptions(
        table=table, retry=MissRetry(delay_ms=options.get(_DELAY), attempts=attempts)
    )


_WORDS = (_STRATEGY.key, "output-mode")
"""Options whose value Flink reads in any case, with - for _ too."""

STATE_TTL = "STATE_TTL"

OPTIONS = "OPTIONS"

OF_TABLES = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "MULTI_JOIN")
"""Hints that list relations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTtl:
    """The time to live of a relation's state without a change; 0 ms: unlimited."""

    relation: exp.Expr
    milliseconds: int
    span: Span | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupHint:
    """How a relation is looked up."""

    relation: exp.Expr
    options: LookupOptions
    span: Span | None


def hint_errors(query: exp.Expr) -> list[InputError]:
    """Find what is wrong with the hints of a query's SELECTs: names, keys and values."""
    found: list[InputError] = []
    for select in find_nodes(query, exp.Select):
        for call in _calls(select):
            try:
                _check(select, call)
            except InputError as error:
                error.span = error.span or span_of(call) or span_of(select)
                found.append(error)
    return found


def state_ttls(select: exp.Select) -> list[StateTtl]:
    """Read the hints STATE_TTL of a SELECT that was checked, one for each relation that they name."""
    found: dict[int, StateTtl] = {}
    for call in _calls(select, STATE_TTL):
        for pair in call.expressions:
            relation = _relation(select, pair.this)
            time = _duration(pair)
            found[id(relation)] = StateTtl(relation=relation, milliseconds=time, span=span_of(pair))
    return list(found.values())


def take_state_ttl(select: exp.Select) -> None:
    """Remove the hints STATE_TTL from a SELECT, in place."""
    hint = select.args["hint"]
    hint.set("expressions", [call for call in hint.expressions if call.name != STATE_TTL])
    if not hint.expressions:
        hint.pop()


def bounds_state(query: exp.Expr) -> bool:
    """Return whether a query has a hint STATE_TTL."""
    return any(_calls(select, STATE_TTL) for select in find_nodes(query, exp.Select))


def lookup_hints(select: exp.Select) -> list[LookupHint]:
    """Read the hints LOOKUP of a SELECT that was checked."""
    return [
        LookupHint(
            relation=_relation(select, pairs[TABLE].expression),
            options=lookup_options({key: pair.expression.name for key, pair in pairs.items()}),
            span=span_of(call),
        )
        for call in _calls(select, LOOKUP)
        for pairs in (_pairs(call),)
    ]


def _calls(select: exp.Select, name: str | None = None) -> list[exp.Expr]:
    hint = select.args.get("hint")
    calls = hint.expressions if hint is not None else []
    return [call for call in calls if name is None or call.name == name]


def _check(select: exp.Select, call: exp.Expr) -> None:
    if call.name in OF_TABLES:
        if not call.expressions or any(isinstance(n, exp.PropertyEQ) for n in call.expressions):
            raise DefinitionError(
                f"the hint {call.name} lists the tables that it is for",
                hint=f"write {call.name}({_names(select)[0]})",
            )
        for name in call.expressions:
            _relation(select, name)
    elif call.name == STATE_TTL:
        for pair in _pairs(call).values():
            _relation(select, pair.this)
            _duration(pair)
    elif call.name == LOOKUP:
        pairs = _pairs(call)
        lookup_options({key: pair.expression.name for key, pair in pairs.items()})
        _relation(select, pairs[TABLE].expression)
    else:
        known = (*OF_TABLES, STATE_TTL, LOOKUP)
        if call.name.upper() == OPTIONS:
            raise UnsupportedError(
                f"the hint {call.name} is a table's, not a query's",
                hint="write it behind the name of the table that it is for, or SET a key of the session",
            )
        raise UnsupportedError(
            f"the hint {call.name} is not supported",
            hint=did_you_mean(call.name, known) or f"there are: {', '.join(known)}",
        )


def _pairs(call: exp.Expr) -> dict[str, exp.Expr]:
    pairs = call.expressions
    if not pairs or not all(isinstance(pair, exp.PropertyEQ) for pair in pairs):
        example = "'t' = '1 d'" if call.name == STATE_TTL else f"'{TABLE}' = 't'"
        raise DefinitionError(
            f"the hint {call.name} has keys and values, and at least one",
            hint=f"write {call.name}({example})",
        )
    return {pair.this.name: pair for pair in pairs}


def _duration(pair: exp.Expr) -> int:
    text = pair.expression.name
    try:
        return DURATION.parse(text)
    except ValueError:
        raise OptionError(
            f"the hint {STATE_TTL}: '{text}' is not {DURATION.name}",
            hint="write for instance '1 d'; '0 s' is without limit",
            span=span_of(pair),
        ) from None


# --- relations ---


def _relation(select: exp.Select, name: exp.Expr) -> exp.Expr:
    """The relation in FROM that a hint names. Raises UnknownObjectError."""
    parts = _parts(name)
    for relation in _relations(select):
        if _is_named(relation, parts):
            return relation
    names = _names(select)
    there = f"there are: {', '.join(names)}" if names else "this SELECT has no FROM"
    shown = ".".join(parts)
    raise UnknownObjectError(
        f"the hint names '{shown}', and no table, view or query in FROM has this name",
        hint=did_you_mean(parts[-1], names) or f"{there}; a hint is for its own SELECT alone",
        span=span_of(name) or (span_of(name.parent) if name.parent is not None else None),
    )


def _parts(name: exp.Expr) -> tuple[str, ...]:
    if isinstance(name, exp.Literal):
        return tuple(name.name.split("."))
    if isinstance(name, exp.Dot):
        return (*_parts(name.this), name.expression.name)
    return (name.name,)


def _relations(select: exp.Select) -> Iterator[exp.Expr]:
    from_ = select.args.get("from_")
    if from_ is not None:
        yield from _nested(from_.this)
    for join in (*(select.args.get("joins") or ()), *(select.args.get("laterals") or ())):
        yield from _nested(join.this if isinstance(join, exp.Join) else join)


def _nested(node: exp.Expr) -> Iterator[exp.Expr]:
    """A relation, and what is joined with it in the same parentheses."""
    inner = node.this if isinstance(node, exp.Subquery) else node
    if isinstance(inner, exp.Table) and inner is not node:
        yield from _nested(inner)
    else:
        yield node
    for join in node.args.get("joins") or ():
        yield from _nested(join.this)


def _is_named(relation: exp.Expr, parts: Sequence[str]) -> bool:
    alias = relation.alias_or_name
    if len(parts) == 1:
        return alias == parts[0]
    if not isinstance(relation, exp.Table) or alias != relation.name:
        return False
    own = tuple(part.name for part in relation.parts)
    shared = min(len(own), len(parts))
    return own[-shared:] == tuple(parts[-shared:])


def _names(select: exp.Select) -> list[str]:
    return [relation.alias_or_name for relation in _relations(select)]
