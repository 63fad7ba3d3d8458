"""What every room uses: records, counts in words, and the root of all errors.

`dataclass`, `field` and `replace` are for a program that ends a tenth of a second after it starts. A reader and a type
checker may take them for the standard library's, of which they are the part that is used here: classes with slots,
frozen or not. That one compiles up to eight methods for each class, and imports what reads source text: two fifths of
all that an idle tick computed. Here the classes share their methods, and an `__init__` is compiled once many objects of
its class are made.
"""

from __future__ import annotations

import sys
from functools import cache
from operator import attrgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from dataclasses import dataclass, field, is_dataclass, replace
    from typing import Any, Literal, TypedDict, TypeVar

    Item = TypeVar("Item")
    By = TypeVar("By")

__all__ = ["TypedDict", "dataclass", "field", "is_dataclass", "replace"]  # to a type checker they are imported here

_ABSENT: Any = object()
_FIELDS: dict[type, dict[str, _Field]] = {}  # of each class, in order
_USUAL: dict[Any, list[Any]] = {}  # of each class, in the same order, what holds where nothing is said


class _Field:
    """What a class says of one of its fields."""

    __slots__ = ("compare", "default", "default_factory", "init", "metadata", "repr")

    def __init__(
        self,
        default: Any = _ABSENT,
        *,
        default_factory: Callable[[], Any] | None = None,
        init: bool = True,
        compare: bool = True,
        repr: bool = True,  # noqa: A002 - as the standard library's
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.default, self.default_factory, self.init = default, default_factory, init
        self.compare, self.repr, self.metadata = compare, repr, metadata


def defaults(kind: type) -> dict[str, Any]:
    """By field what it is where nothing is said; one without a default is not among them."""
    return {
        name: each.default_factory() if each.default_factory is not None else each.default
        for name, each in _FIELDS[kind].items()
        if each.default_factory is not None or each.default is not _ABSENT
    }


def by_field(value: Any) -> dict[str, Any]:
    """Each field as it is, by its name."""
    return dict(zip(value.__slots__, value._all(value), strict=False))  # noqa: SLF001 - it is of the same module


def set_fields(value: Any) -> dict[str, Any]:
    """The same without the fields that are as they are where nothing is said."""
    kind = type(value)
    if kind not in _USUAL:
        usual_values = defaults(kind)
        _USUAL[kind] = [usual_values.get(name, _ABSENT) for name in kind.__slots__]
    every = zip(kind.__slots__, value._all(value), _USUAL[kind], strict=False)  # noqa: SLF001 - as above
    return {name: each for name, each, usual in every if each != usual}


def _is_dataclass(thing: Any) -> bool:
    return (thing if isinstance(thing, type) else type(thing)) in _FIELDS


def _dataclass(*, slots: Literal[True], frozen: bool = False, order: bool = False) -> Callable[[type], type]:  # noqa: ARG001 - others would be the standard library's
    """A class with slots for its annotated names, made anew: Python gives slots to no class that is there already."""
    base = _Ordered if order else _Frozen if frozen else _Values

    def made(given: type) -> Any:
        body = {name: each for name, each in vars(given).items() if name not in {"__dict__", "__weakref__"}}
        body["__qualname__"] = given.__qualname__
        annotated = {name: body.pop(name, _ABSENT) for name in given.__annotations__}
        fields = {name: each if isinstance(each, _Field) else _Field(each) for name, each in annotated.items()}
        body["__slots__"] = tuple(fields)
        body["__match_args__"] = tuple(name for name, each in fields.items() if each.init)
        compared = [name for name, each in fields.items() if each.compare]
        body["_compared"] = attrgetter(*compared or ["__class__"])
        body["_all"] = attrgetter(*fields, "__class__", "__class__")  # of a single name it gives no tuple
        kind: Any = type(given.__name__, (*(each for each in given.__bases__ if each is not object), base), body)
        _FIELDS[kind] = fields
        kind.__init__ = _to_compile(kind)
        return kind

    return made


def _replace(value: Any, /, **changes: Any) -> Any:
    """Another one, that differs in `changes`."""
    return type(value)(**{name: getattr(value, name) for name in value.__match_args__} | changes)


def _to_compile(kind: Any) -> Callable[..., None]:
    made = 0

    def __init__(self: Any, *given: Any, **named: Any) -> None:  # noqa: N807 - it stands for one until many are made
        nonlocal made
        made += 1
        places = kind.__match_args__
        values = defaults(kind) | dict(zip(places, given, strict=False)) | named
        wrong = values.keys() != _FIELDS[kind].keys() or len(given) > len(places)
        wrong = wrong or not named.keys() <= {*places[len(given) :]}
        if made > _FEW or wrong:
            kind.__init__ = _compiled(kind)
            kind.__init__(self, *given, **named)
        else:
            for name, value in values.items():
                object.__setattr__(self, name, value)

    return __init__


_FEW = 20  # objects: to compile for fewer takes longer than it saves


def _compiled(kind: Any) -> Callable[..., None]:
    """Fields are set by their slots' descriptors: past what makes a class frozen."""
    namespace: dict[str, Any] = {"_ABSENT": _ABSENT}
    parameters, lines = ["self"], ["pass"]
    for name, each in _FIELDS[kind].items():
        namespace |= {f"_set_{name}": getattr(kind, name).__set__, f"_default_{name}": each.default}
        value, made = name, f"_made_{name}()"
        if each.default_factory is not None:
            namespace[f"_made_{name}"] = each.default_factory
            value = f"{made} if {name} is _ABSENT else {name}" if each.init else made
        if each.init:
            needed = each.default is _ABSENT and each.default_factory is None
            parameters.append(name if needed else f"{name}=_default_{name}")
        lines.append(f"_set_{name}(self, {value})")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines), namespace)  # noqa: S102 - of our own names
    made_init: Callable[..., None] = namespace["__init__"]
    made_init.__qualname__ = f"{kind.__qualname__}.__init__"  # what a TypeError names
    return made_init


@cache
def _standard_fields(kind: type) -> Any:
    """By name, the standard library's own description of each field."""
    import dataclasses

    body: dict[str, Any] = {"__annotations__": kind.__annotations__}
    for name, each in _FIELDS[kind].items():
        options = {name: getattr(each, name) for name in _Field.__slots__}
        del options["default" if each.default is _ABSENT else "default_factory"]
        if each.default is _ABSENT and each.default_factory is None:
            del options["default_factory"]
        body[name] = dataclasses.field(**options)
    return vars(dataclasses.dataclass(type(kind.__name__, (), body)))["__dataclass_fields__"]


class _StandardFields:
    """What the standard library's `asdict`, `fields` and `replace` ask of a class; few ask, but those often."""

    def __get__(self, _: object, kind: type) -> Any:
        return _standard_fields(kind)


class _Values:
    """What classes share."""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()
    __dataclass_fields__ = _StandardFields()
    __hash__: Any = None  # what may change has none
    _compared: Callable[[object], Any]  # of an object the fields that make it equal to another
    _all: Callable[[object], tuple[Any, ...]]  # and its fields in their order

    def __eq__(self, other: object) -> bool:
        return self._compared(self) == self._compared(other) if type(other) is type(self) else NotImplemented

    def __repr__(self) -> str:
        pairs = (f"{name}={getattr(self, name)!r}" for name, each in _FIELDS[type(self)].items() if each.repr)
        return f"{type(self).__qualname__}({', '.join(pairs)})"

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), tuple(getattr(self, name) for name in self.__match_args__)


class _Frozen(_Values):
    __slots__ = ()

    def __hash__(self) -> int:
        return hash(self._compared(self))

    def __setattr__(self, name: str, _: object) -> None:
        raise AttributeError(f"{type(self).__qualname__} is frozen: {name} stays as it is")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__qualname__} is frozen: {name} stays as it is")


class _Ordered(_Frozen):
    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return self._compared(self) < self._compared(other) if type(other) is type(self) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self._compared(self) <= self._compared(other) if type(other) is type(self) else NotImplemented


class _TypedDict(dict[str, "Any"]):
    """A mapping whose keys a type checker knows: to others a class with annotated names, of which none is made."""

    def __init_subclass__(cls, *, total: bool) -> None:
        """`total`: whether each key is always there."""


if not TYPE_CHECKING:
    TypedDict = _TypedDict
    dataclass, field, is_dataclass, replace = _dataclass, _Field, _is_dataclass, _replace


def grouped(items: Iterable[Item], key: Callable[[Item], By]) -> dict[By, list[Item]]:
    """`items` by what `key` makes of each, in the order in which they come."""
    groups: dict[By, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


# --- text ---------------------------------------------------------------------------------------------------------


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 file`, `1,904 files`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def are(number: int, noun: str) -> str:
    """`1 file is`, `3 files are`."""
    return f"{count(number, noun)} {'is' if number == 1 else 'are'}"


def were(number: int, noun: str) -> str:
    """`1 file was`, `3 files were`."""
    return f"{count(number, noun)} {'was' if number == 1 else 'were'}"


def nearest(word: str, words: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one of `words` most like a misspelt `word`; None where none is as like as `cutoff` (0 to 1)."""
    import difflib

    return next(iter(difflib.get_close_matches(word, list(words), 1, cutoff)), None)


def digest(data: bytes) -> str:
    """What tells one text from another: its SHA-256 in hex, by the lean module that `random` uses, too.

    `hashlib` loads OpenSSL: a fifth of what the start of a bare Python takes.
    """
    try:
        if sys.version_info >= (3, 12):
            from _sha2 import sha256  # type: ignore[import-not-found,unused-ignore]
        else:
            from _sha256 import sha256  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        from hashlib import sha256
    return str(sha256(data).hexdigest())


# --- what is wrong; its texts may have commands in them (model/advice.py), and + keeps those -------------------------


class CronhpcError(Exception):
    """The root of every error that cronhpc raises on purpose; its parts say what, where and the fix."""

    passing = False  # nothing is known to be wrong with what was asked: it may well go through another time

    @property
    def advice(self) -> str:
        """What it says, with its commands as values."""
        text = ""
        for part in self.args:
            text += part if isinstance(part, str) else str(part)
        return text
