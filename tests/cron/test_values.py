"""Classes of values: the same as the standard library's to those who use them, and cheap for those who do not."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from cronhpc.cron import values


def classes(dataclass: Any, field: Any) -> dict[str, Any]:
    """The same classes, made by one of both."""

    @dataclass(frozen=True, slots=True)
    class Run:
        """A frozen one."""

        name: str
        slot: int = 3
        tags: tuple[str, ...] = ()
        facts: dict[str, int] = field(default_factory=dict)
        text: str = field(default="as written", compare=False)
        memo: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

        def __str__(self) -> str:
            return f"{self.name}@{self.slot}"

    @dataclass(frozen=True, slots=True, order=True)
    class Key:
        entry: str
        slot: int = 0

    @dataclass(slots=True)
    class Counts:
        files: list[str] = field(default_factory=list)
        bytes: int = 0

    @dataclass(frozen=True, slots=True)
    class Nothing:
        """No field."""

    @dataclass(frozen=True, slots=True)
    class One:
        name: str

    return {"Run": Run, "Key": Key, "Counts": Counts, "Nothing": Nothing, "One": One}


OURS = classes(values.dataclass, values.field)
STANDARD = classes(dataclasses.dataclass, dataclasses.field)


def outcome(of: dict[str, Any], act: Callable[..., Any]) -> Any:
    """What comes of it, or the kind of error."""
    try:
        return act(of)
    except (AttributeError, TypeError) as error:
        return type(error)


def matched(value: Any, kind: Any) -> Any:
    match value:
        case kind(name, slot):
            return name, slot
    return None


def set_and_count(of: dict[str, Any]) -> Any:
    counts = of["Counts"]()
    counts.bytes += 4
    counts.files.append("a")
    return repr(counts), of["Counts"]().files


SITUATIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "its text names class and fields, but those left out": lambda of: repr(of["Run"]("a", tags=("b",))),
    "a method of its own stays": lambda of: str(of["Run"]("a")),
    "an own text beside the shared one": lambda of: f"{of['Run']('a')!r} {of['Run']('a')}",
    "equal fields, equal values": lambda of: of["Run"]("a", 3) == of["Run"]("a"),
    "another field, another value": lambda of: of["Run"]("a", 4) == of["Run"]("a"),
    "what does not compare makes none different": lambda of: of["Run"]("a", text="b") == of["Run"]("a"),
    "a tuple is no such value": lambda of: of["Key"]("a", 0) == ("a", 0),
    "another class with the same fields is another value": lambda of: of["One"]("a") == of["Key"]("a"),
    "equal values are one of a set": lambda of: len({of["Key"]("a"), of["Key"]("a", 0), of["Key"]("b")}),
    "one field is enough for a set": lambda of: len({of["One"]("a"), of["One"]("a")}),
    "without a field all are equal": lambda of: len({of["Nothing"](), of["Nothing"]()}),
    "without a field the text is short": lambda of: repr(of["Nothing"]()),
    "what holds a dict has no hash": lambda of: hash(of["Run"]("a")),
    "what may change has no hash": lambda of: hash(of["Counts"]()),
    "sorted": lambda of: [each.slot for each in sorted([of["Key"]("b", 1), of["Key"]("a", 3), of["Key"]("a", 2)])],
    "largest": lambda of: max(of["Key"]("b", 1), of["Key"]("a", 3)).entry,
    "greater or equal": lambda of: (of["Key"]("b") >= of["Key"]("b"), of["Key"]("b") > of["Key"]("b")),
    "no order among those without one": lambda of: of["One"]("a") < of["One"]("b"),
    "no order beside another class": lambda of: of["Key"]("a") < ("a", 0),
    "a frozen field stays": lambda of: setattr(of["Run"]("a"), "slot", 4),
    "a frozen field is not taken away": lambda of: delattr(of["Run"]("a"), "slot"),
    "there is no other field": lambda of: setattr(of["Counts"](), "other", 4),
    "a field that may change, made anew for each": set_and_count,
    "a field is missing": lambda of: of["Run"](),
    "a field that it has not": lambda of: of["Run"]("a", other=1),
    "a field that it makes itself": lambda of: of["Run"]("a", memo={}),
    "too many": lambda of: of["Key"]("a", 1, 2),
    "too many, of which it makes the last itself": lambda of: of["Run"]("a", 1, (), {}, "b", {}),
    "a field given twice": lambda of: of["Key"]("a", entry="b"),
    "the dict is each one's own": lambda of: of["Run"]("a").facts is of["Run"]("a").facts,
    "a field made by itself is there": lambda of: of["Run"]("a").memo,
    "matched by place": lambda of: matched(of["Key"]("a", 2), of["Key"]),
    "copied": lambda of: copy.deepcopy(of["Run"]("a", facts={"b": 1})) == of["Run"]("a", facts={"b": 1}),
    "its fields, as the standard library tells them": lambda of: [each.name for each in dataclasses.fields(of["Run"])],
    "as a dict": lambda of: dataclasses.asdict(of["Run"]("a", facts={"b": 1})),
    "changed by the standard library": lambda of: repr(dataclasses.replace(of["Run"]("a"), slot=9)),
    "one of the standard library's kind": lambda of: dataclasses.is_dataclass(of["Run"]),
    "its annotations": lambda of: of["Run"].__annotations__,
    "its slots": lambda of: of["Run"].__slots__,
    "its words": lambda of: of["Run"].__doc__,
}


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("few", [pytest.param(0, id="of many objects"), pytest.param(99, id="of few")])
def test_a_value_is_as_the_standard_librarys(monkeypatch: pytest.MonkeyPatch, situation: str, few: int) -> None:
    monkeypatch.setattr(values, "_FEW", few)
    act, ours = SITUATIONS[situation], classes(values.dataclass, values.field)
    expected = outcome(STANDARD, act)
    assert outcome(ours, act) == (AttributeError if expected is dataclasses.FrozenInstanceError else expected)


@pytest.mark.parametrize("changes", [{"slot": 9}, {"facts": {"a": 1}}, {"other": 1}, {}])
def test_another_one_that_differs_in_a_few_fields(changes: dict[str, Any]) -> None:
    def by(replace: Any) -> Callable[..., Any]:
        return lambda of: repr(replace(of["Run"]("a", tags=("b",), text="c"), **changes))

    expected = outcome(STANDARD, by(dataclasses.replace))
    assert outcome(OURS, by(values.replace)) == (TypeError if isinstance(expected, type) else expected)


def test_the_standard_librarys_description_of_a_class_is_made_once() -> None:
    """To make one takes as long as to compile a class: `dataclasses.replace` asks for it twice."""
    kind = OURS["Run"]
    assert all(mine is again for mine, again in zip(dataclasses.fields(kind), dataclasses.fields(kind), strict=True))


def test_defaults_are_of_the_fields_that_have_one() -> None:
    expected = {"slot": 3, "tags": (), "facts": {}, "text": "as written", "memo": {}}
    assert values.defaults(OURS["Run"]) == expected


def test_a_value_goes_to_another_process() -> None:
    from cronhpc.core.model import Key

    assert pickle.loads(pickle.dumps(Key("a", 60, 2))) == Key("a", 60, 2)  # noqa: S301 - our own bytes
