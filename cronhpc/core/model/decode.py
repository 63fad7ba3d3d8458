"""What the files of state/ and scheduler/ may hold, as their records' own types say, and what of a file is of use.

A file may be valid JSON and no work of ours: an editor, a program's mistake, a disk's. Nothing of it may stop a tick.
So each value is looked at once, where its file is read: what does not fit is left out, as if it had never been written,
and its place is said; the rest is kept. A schema is a `Record` (these fields, and no others), `Rows` (any keys, values
of one schema), a list (values of one schema), a tuple (just these, in this order), or a function that gives back the
value, a better one, or GONE. A record's own types say which.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import EnumType
from functools import cache, lru_cache
from itertools import chain
from types import FunctionType

from cronhpc.core.model import Advice, Command, Problem, text_of
from cronhpc.cron.values import by_field, dataclass, defaults, is_dataclass, set_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from _typeshed import DataclassInstance

    T = TypeVar("T", bound=DataclassInstance)
    Decoded = tuple[Any, tuple[str, ...]]

GONE: Any = object()  # in place of a value that is of no use
LATEST = 253402128000  # 9999-12-30: a later instant has no date in every zone
_MOST = 2**53  # no number of ours is larger, but for nanoseconds
_DIGITS = 20  # of a job's number


# --- values --------------------------------------------------------------------------------------------------------


def text(value: object) -> Any:
    """A text that can be a file's name, an argument, a variable: no NUL, and no half of a character."""
    if not isinstance(value, str) or "\0" in value:
        return GONE
    if not value.isascii():
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return GONE
    return value


def flag(value: object) -> Any:
    return value if isinstance(value, bool) else GONE


def _between(least: int, most: int) -> Callable[[object], Any]:
    def number(value: object) -> Any:
        return value if type(value) is int and least <= value <= most else GONE

    return number


number, when = _between(0, _MOST), _between(0, LATEST)


def watermark(value: object) -> Any:
    """An instant; one beyond all dates is as a wrong clock's, and is dealt with as such."""
    return LATEST if isinstance(value, int | float) and value > LATEST else when(value)


def job(value: object) -> Any:
    """A job's number, as a text."""
    fits = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= _DIGITS
    return value if fits else GONE


def anything(value: object) -> Any:
    """Looked at by who reads it."""
    return value


def _member(kind: EnumType) -> Any:
    """A word of ours; what stands for one that is not known is none."""

    def word(value: object) -> Any:
        try:
            return value if isinstance(value, str) and kind(value) else GONE
        except ValueError:
            return GONE

    return word


def _or_none(kind: Any) -> Any:
    def maybe(value: object) -> Any:
        return value if value is None else kind(value)

    return maybe


# --- schemas -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rows:
    """A mapping from names to values of one schema."""

    schema: Any


@dataclass(frozen=True, slots=True)
class Word:
    """A text that stands for a value of its own kind."""

    check: Callable[[object], Any]
    kind: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping from the names of a dataclass's fields to their values."""

    kind: Any
    fields: dict[str, Any]
    needed: frozenset[str]  # those without a default
    inner: frozenset[str]  # those whose JSON values are not the values themselves
    nullable: frozenset[str]  # those that may be None
    earlier: Mapping[str, str]  # names of fields in older versions


def _advice(value: Any) -> Any:
    if isinstance(value, str):
        return value
    return Advice(*(part if isinstance(part, str) else made(Command, part) for part in value))


_SCALARS: dict[str, Any] = {
    "str": text, "int": number, "bool": flag, "Instant": when, "Watermark": watermark, "Any": anything, "JobId": job,
    "Difference": _between(-_MOST, _MOST), "Nanoseconds": _between(0, 2**63), "str | Advice": Word(anything, _advice),
    "LinksAhead": _between(1, 200),  # as `start --prequeue` takes them
}  # fmt: skip


@cache
def of(kind: type) -> Record:
    """The schema of a record, by its fields' own types."""
    hints, names = kind.__annotations__, vars(sys.modules[kind.__module__])
    fields = {name: _schema(hint.removesuffix(" | None"), names) for name, hint in hints.items()}
    nullable = frozenset(name for name, hint in hints.items() if hint.endswith(" | None"))
    if not is_dataclass(kind):
        return Record(dict, fields, frozenset(), frozenset(), nullable, {})
    needed = frozenset(fields.keys() - defaults(kind).keys())
    inner = frozenset(name for name, schema in fields.items() if not _is_made(schema))
    return Record(kind, fields, needed, inner, nullable, getattr(kind, "EARLIER", {}))


def type_of(schema: Any) -> type | None:
    """Of what type its values are, where nearly each value of that type is one."""
    return _TYPES.get(schema) if type(schema) is FunctionType else None


_TYPES: dict[Any, type] = {text: str, number: int, when: int, flag: bool}


def _is_made(schema: Any) -> bool:
    """Whether its values are JSON's own."""
    return type(schema) is FunctionType or (isinstance(schema, Record) and schema.kind is dict)


def _schema(hint: str, names: Mapping[str, Any]) -> Any:
    """`names`: what the types of its record stand for."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    if hint.endswith(" | None"):
        return _or_none(_schema(hint.removesuffix(" | None"), names))
    outer, _, inner = hint.removesuffix("]").partition("[")
    if outer in {"Mapping", "dict"}:
        return Rows(_schema(inner.removeprefix("str, "), names))
    if outer == "list" or inner.endswith(", ..."):
        return [_schema(inner.removesuffix(", ..."), names)]
    if outer == "tuple":
        return tuple(_schema(each, names) for each in inner.split(", "))
    return Word(_member(names[hint]), names[hint]) if isinstance(names[hint], EnumType) else of(names[hint])


# --- what is left of a value ---------------------------------------------------------------------------------------


def decode(value: Any, schema: Any, at: str = "") -> Decoded:
    """What is left of `value`, which stands `at` that place, and the places of what does not fit `schema`.

    GONE: nothing is left. Keys that a record does not have are left out without a word, and so is a record that lacks
    what has no default: another version of this format wrote them.
    """
    if isinstance(schema, Record):
        return _fields(value, schema, at) if isinstance(value, dict) else (GONE, (at,))
    if isinstance(schema, Rows):
        return _mapping(value, schema.schema, at) if isinstance(value, dict) else (GONE, (at,))
    if isinstance(schema, list):
        return _values(value, schema[0], at) if isinstance(value, list) else (GONE, (at,))
    if isinstance(schema, tuple):
        return _tuple(value, schema, at)
    checked = (schema.check if isinstance(schema, Word) else schema)(value)
    return checked, () if checked is value else (at,)


def _fields(value: dict[str, Any], record: Record, at: str) -> Decoded:
    fields: dict[str, Any] = {}
    invalid: tuple[str, ...] = ()
    for name, each in _renamed(value, record.earlier).items():
        schema = record.fields.get(name)
        if schema is None:
            continue
        if type(schema) is FunctionType and (schema(each) is each or (each is None and name in record.nullable)):
            fields[name] = each  # nearly all of them: no place is spelt out for these
            continue
        kept, wrong = decode(each, schema, f"{at}.{name}" if at else name)
        invalid += wrong
        if kept is not GONE:
            fields[name] = kept
    return fields if record.needed <= fields.keys() else GONE, invalid


def _renamed(value: dict[str, Any], earlier: Mapping[str, str]) -> dict[str, Any]:
    if earlier.keys().isdisjoint(value):
        return value
    return {now: value[was] for was, now in earlier.items() if was in value} | value


def _mapping(value: dict[str, Any], schema: Any, at: str) -> Decoded:
    rows: dict[str, Any] = {}
    invalid: tuple[str, ...] = ()
    for name, each in value.items():
        place = f"{at}.{name}" if at else name
        kept, wrong = decode(each, schema, place) if text(name) is not GONE else (GONE, (place,))
        invalid += wrong
        if kept is not GONE:
            rows[name] = kept
    return rows, invalid


def _values(value: list[Any], schema: Any, at: str) -> Decoded:
    parts = [decode(each, schema, at) for each in value]
    kept = [each for each, _ in parts if each is not GONE]
    return kept, tuple(chain.from_iterable(wrong for _, wrong in parts))


def _tuple(value: Any, schema: tuple[Any, ...], at: str) -> Decoded:
    """As a whole or not at all."""
    if isinstance(value, list) and len(value) == len(schema):
        parts = [decode(each, kind, at) for each, kind in zip(value, schema, strict=True)]
        if not any(wrong for _, wrong in parts):
            return [each for each, _ in parts], ()
    return GONE, (at,)


_NAMED = 3  # places that a message names


def places(invalid: Sequence[str]) -> str:
    """Where something was left out, for a message: printable, and not long."""
    named = [each[:80].encode("ascii", "replace").decode() if each.isprintable() else "?" for each in invalid[:_NAMED]]
    more = f" and {len(invalid) - _NAMED} more" if len(invalid) > _NAMED else ""
    return f"{', '.join(dict.fromkeys(named))}{more}"


# --- dataclasses as JSON values, and back -----------------------------------------------------------------------------


def read(kind: type[T], value: object, at: str = "") -> tuple[T | None, tuple[str, ...]]:
    """What `value` tells of a `kind`, None where a field without a default is missing; and what `decode` left out."""
    values, invalid = decode(value, of(kind), at)
    return None if values is GONE else made(kind, values), invalid


_AS_THEY_ARE = frozenset({str, int, bool, type(None)})


def plain(value: Any) -> Any:
    """`value` as JSON values: of a dataclass the fields that differ from their defaults, of advice its parts."""
    if isinstance(value, Advice):
        return [plain(each) for each in value.parts]
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: each if type(each) in _AS_THEY_ARE else plain(each) for name, each in value.items()}
    if not is_dataclass(value):
        return value
    return {name: each if type(each) in _AS_THEY_ARE else plain(each) for name, each in set_fields(value).items()}


def made(kind: type[T], row: Mapping[str, Any]) -> T:
    """The reverse of `plain`. Raises TypeError, AttributeError, ValueError for a row that holds something else."""
    record: T = _made(row, of(kind))
    return record


def _made(value: Any, schema: Any) -> Any:
    if isinstance(schema, Record):
        values = {**value}
        for name in schema.inner & values.keys():
            values[name] = _made(values[name], schema.fields[name])
        return schema.kind(**values)
    if isinstance(schema, Rows):
        return {name: _made(each, schema.schema) for name, each in value.items()}
    if isinstance(schema, list):
        return tuple(value if _is_made(schema[0]) else (_made(each, schema[0]) for each in value))
    if isinstance(schema, tuple):
        return tuple(map(_made, value, schema))
    return schema.kind(value) if isinstance(schema, Word) else value


# --- what other programs and users read: records, every field of them -------------------------------------------------


@lru_cache(maxsize=4096)  # entries share their instants
def iso(at: int | None) -> str | None:
    """An instant as ISO 8601 in UTC: 2026-11-27T13:30:00Z."""
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def epoch(text: object) -> int | None:
    """The reverse of `iso`; None for anything else, also for what has no date in every zone."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    at = int(moment.timestamp()) if moment.tzinfo else -1
    return at if 0 <= at <= LATEST else None


class MisfitError(ValueError):
    """A value is none that a tick writes; the text is its place: `entries.0.runs`."""


@dataclass(frozen=True, slots=True)
class Records:
    """Dataclasses as JSON values with every field, instants in ISO 8601, and back.

    `may_lack`: by type, fields that a file may lack, and what then holds.
    """

    may_lack: Mapping[type, Mapping[str, Any]]

    def whole(self, value: Any, directory: str | None = None) -> Any:
        """`value` as JSON values: of a record each field, but for what is None and may be lacking.

        Advice becomes a text that names `directory`; where none is given it stays what it is.
        """
        kind: Any = type(value)
        if isinstance(value, (list, tuple)):
            return [self.whole(each, directory) for each in value]
        if is_dataclass(value):
            row = by_field(value)
            for name in _instants(kind):
                row[name] = iso(row[name])
            if isinstance(value, Problem):
                row["severity"] = value.severity
            for name, each in row.items():
                if type(each) not in _AS_THEY_ARE:
                    row[name] = self.whole(each, directory)
            for name in self.may_lack.get(kind, ()):
                if row[name] is None:
                    del row[name]
            return row
        if isinstance(value, Mapping):
            return {key: self.whole(each, directory) for key, each in value.items()}
        return value if directory is None or not isinstance(value, Advice) else text_of(value, directory)

    def exact(self, kind: type[T], value: object, at: str = "") -> T:
        """The reverse, for a file that anybody may have written; keys of later versions are passed over.

        Raises MisfitError where a field is missing that may not be, or holds another kind of value.
        """
        record: T = self._exact(of(kind), value, at)
        return record

    def _exact(self, schema: Any, value: Any, at: str) -> Any:
        if isinstance(schema, Record) and isinstance(value, dict):
            value = _renamed(value, schema.earlier)
            fields = {**defaults(schema.kind), **self.may_lack.get(schema.kind, {})}
            for name in schema.fields:
                if name in value:
                    each, place = value[name], f"{at}.{name}".lstrip(".")
                    known = each is not None or name not in schema.nullable
                    fields[name] = self._exact(schema.fields[name], each, place) if known else None
            if fields.keys() == schema.fields.keys():
                return schema.kind(**fields)
        elif isinstance(schema, list) and isinstance(value, list):
            return tuple(self._exact(schema[0], each, f"{at}.{number}") for number, each in enumerate(value))
        elif isinstance(schema, Word) and isinstance(value, str):
            return schema.kind(value)
        elif schema is when:
            if (instant := epoch(value)) is not None:
                return instant
        elif type(value) is type_of(schema) and (type(value) is not int or abs(value) < _MOST):
            return value
        raise MisfitError(at or ".")


@cache
def _instants(kind: type) -> frozenset[str]:
    """The fields of a record that are instants."""
    return frozenset(name for name, hint in kind.__annotations__.items() if hint.startswith("Instant"))
