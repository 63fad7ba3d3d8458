"""YAML text to nodes that know their line; what the parser says in words that help. The only import of yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from cronhpc.core.model import Problem, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator

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
