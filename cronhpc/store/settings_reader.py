"""The structure of `cronhpc.yaml`: sections, keys and single values, each complaint with its line and mend."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

from cronhpc.core import text
from cronhpc.core.duration import DurationError, parse_duration
from cronhpc.core.model import Problem, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


# --- nodes of YAML ----------------------------------------------------------------------------------------------------
#
# They know their line, and what the parser says is said in words that help. The only import of yaml.


_MERGE = "tag:yaml.org,2002:merge"
_NULL = "tag:yaml.org,2002:null"


class Node(Protocol):
    """What is used of a node of PyYAML's."""

    id: str  # scalar | sequence | mapping
    tag: str
    value: Any  # text | list of nodes | list of (key, value) nodes
    start_mark: Any  # line and column, from 0
    end_mark: Any
    flow_style: bool | None  # in brackets


Fields = dict[str, tuple[Node, Node]]  # a key as written: its node and its value's


def compose(data: bytes, file: str) -> Node | None:
    """The root node of the only document in `data`; None where there is none. Raises SettingsError with the line."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        text = data.decode("utf-8-sig")
        root: Any = yaml.compose(text, Loader=loader)
    except UnicodeDecodeError as error:
        problem = Problem("E601", "not UTF-8 text.", "Save it as UTF-8.", file, data.count(b"\n", 0, error.start) + 1)
    except yaml.MarkedYAMLError as error:
        problem = _syntax(error, text, file)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = Problem("E601", f"a control character ({error.character!r}).", "Remove it.", file, line)
    except RecursionError:  # the Python loader; the C one has a limit of its own
        problem = Problem("E601", "nested too deeply.", "Flatten it.", file, 1)
    else:
        return root  # type: ignore[no-any-return] # a Node or None
    raise SettingsError((problem,))


def _syntax(error: Any, text: str, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 0
    lines = text.splitlines()
    here = lines[line - 1] if 0 < line <= len(lines) else ""
    said = str(error.problem or error.context).strip()
    started = error.context_mark.line + 1 if error.context_mark else line
    if started != line:
        said += f" ({error.context}, from line {started})"
    return Problem("E601", f"not YAML: {said}, at {here.strip()[:60]!r}.", _mend(here, said), file, line)


def _mend(here: str, said: str) -> str:
    if "\t" in here[: len(here) - len(here.lstrip())] or "'\\t'" in said:
        return "Indent with blanks, not tabs."
    value = here.partition(":")[2].strip()
    if value[:1] in {"*", "@", "%", "`", "&", "!", "|", ">"}:
        return f'Put the value in quotes: {here.partition(":")[0].strip()}: "{value}".'
    if "mapping values are not allowed" in said and value:
        return f"A value that holds ': ' needs quotes: {here.partition(':')[0].strip()}: '{value}'."
    if "single document" in said:
        return "Keep one document: remove the line ---."
    return "Check indentation, quotes and brackets there and in the line above."


def is_null(node: Node) -> bool:
    """Whether nothing is written there (`key:`), or an explicit null."""
    return bool(node.tag == _NULL)


def line_of(node: Node) -> int:
    """From 1."""
    return int(node.start_mark.line) + 1


def pairs(node: Node, seen: frozenset[int] = frozenset()) -> Iterator[tuple[Node, Node]]:
    """(key, value) nodes of a mapping in order; merged ones (`<<: *base`) last, and only where its own say nothing."""
    merged: list[Any] = []
    own = set()
    for key, value in node.value:
        if key.tag == _MERGE:
            merged += value.value if value.id == "sequence" else [value]
        else:
            own.add(key.value if key.id == "scalar" else None)
            yield key, value
    seen |= {id(node)}
    for base in merged:
        if base.id == "mapping" and id(base) not in seen:
            for key, value in pairs(base, seen):
                if key.value not in own:
                    own.add(key.value)
                    yield key, value


# --- sections, keys and values ------------------------------------------------------------------------------------


class Reader:
    """One pass over the nodes. What is wrong is noted, and the walk goes on, so that all is said at once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.in_rows = 0  # how many of them are about rows of `entries`, which harm only themselves
        self.lines: dict[str, int] = {}  # of each setting

    def section(self, node: Node, prefix: str, found: dict[str, Any]) -> None:
        """The settings below `prefix` ("" or "scheduler.") into `found`, by field."""
        from cronhpc.store import schema
        from cronhpc.store.settings_kinds import READERS

        for name, (key, value) in self.fields(node, prefix.rstrip("."), schema.level(prefix)).items():
            path = prefix + name
            self.lines[path] = line_of(key)
            setting = schema.BY_KEY.get(path)
            if setting is None:
                self.section(value, path + ".", found)
            elif not is_null(value):
                got = READERS[setting.kind](self, setting, value)
                if got is not None:
                    found[setting.field] = got

    def fields(self, node: Node, where: str, allowed: Iterable[str]) -> Fields:
        """The mapping `node`; unknown keys and repeated ones are noted."""
        allowed = tuple(allowed)
        fields = self.mapping(node, where)
        for name in [name for name in fields if name not in allowed]:
            self._unknown(fields.pop(name)[0], name, where, allowed)
        return fields

    def mapping(self, node: Node, where: str) -> Fields:
        """The mapping `node` with any keys."""
        fields: Fields = {}
        if node.id != "mapping":
            if not is_null(node):
                mend = f"Write keys under it, each with a value: {where or 'timezone'}: …"
                self.bad(node, where, f"{said(node)} where keys and values belong.", mend)
            return {}
        for key, value in pairs(node):
            name = key.value if key.id == "scalar" else ""
            if key.id != "scalar" or "\0" in name:
                self.bad(key, where, f"{said(key)} as a key.", "A key is one text.")
            elif name in fields and is_null(value):
                continue  # a key without a value, as `init` writes them, says nothing
            elif name in fields and not is_null(fields[name][1]):
                first = line_of(fields[name][0])
                what = f"{name} stands here twice, first in line {first}."
                self.bad(key, join(where, name), what, "Keep one of them.", "E604")
            else:
                fields[name] = (key, value)
        return fields

    def _unknown(self, key: Node, name: str, where: str, allowed: tuple[str, ...]) -> None:
        from cronhpc.store import schema

        place = f" under {where}" if where else ""
        elsewhere = [row.key for row in schema.TABLE if row.key.split(".")[-1] == name]
        near = nearest(name, allowed)
        if near:
            mend = f"Did you mean {near}?"
        elif elsewhere:
            mend = f"It belongs under {elsewhere[0].rpartition('.')[0] or 'no other key'}."
        else:
            mend = f"Known here: {', '.join(allowed)}."
        self.bad(key, join(where, name), f"unknown key {name!r}{place}.", mend, "E602")

    def bad(self, node: Node, key: str, what: str, mend: str, code: str = "E603") -> None:
        """Note what is wrong at `node`."""
        self.problems.append(Problem(code, what, mend, self.file, line_of(node), key))

    def scalar(self, node: Node, key: str, want: str) -> str | None:
        """The text as written (YAML's own guesses, as `off` or 1:30, are not asked); None where it is none."""
        if node.id != "scalar":
            self.bad(node, key, f"{key}: {said(node)} where {want} belongs.", f"Write {last(key)}: {want}.")
            return None
        if is_null(node):
            return None
        text = str(node.value)
        if "\0" in text:
            self.bad(node, key, f"{key}: holds a NUL character.", "Remove it.")
            return None
        return text

    def scalars(self, node: Node, key: str, want: str) -> list[tuple[Node, str]] | None:
        """A list of texts; one text is a list of one."""
        if is_null(node):
            return None
        if node.id == "mapping":
            self.bad(node, key, f"{key}: {said(node)} where {want} belongs.", f"Write {last(key)}: [{want}].")
            return None
        items = node.value if node.id == "sequence" else [node]
        texts = [(item, self.scalar(item, key, want)) for item in items]
        return [(item, text) for item, text in texts if text]

    def path(self, node: Node, key: str, text: str) -> str:
        """An absolute path, `~` expanded; variables are not, as they differ between nodes."""
        path = os.path.expanduser(text)
        if not path.startswith("/"):
            mend = (
                "Write the path out: variables are not expanded here." if "$" in text else "Write it from / or ~/ on."
            )
            self.bad(node, key, f"{key}: {text!r} is no absolute path.", mend)
        return os.path.normpath(path) if path else path

    def duration(self, node: Node, key: str, text: str, least: int = 0) -> int | None:
        """Seconds."""
        try:
            seconds = parse_duration(text.strip())
        except DurationError as error:
            self.bad(node, key, f"{key}: {error.what}", error.mend)
            return None
        if seconds < least:
            self.bad(node, key, f"{key}: {text!r} is too short.", f"Write at least {least}s.")
        return seconds


def said(node: Node) -> str:
    """What stands there, in words."""
    if node.id == "scalar":
        return f"{str(node.value)[:40]!r}"
    return "a list" if node.id == "sequence" else "keys and values"


def last(key: str) -> str:
    """The last part of a dotted key."""
    return key.rpartition(".")[2]


def join(where: str, name: str) -> str:
    """A dotted key."""
    return f"{where}.{name}" if where else name


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name most like a misspelt one, or None."""
    return text.nearest(name.lower().replace("_", "-"), allowed)
