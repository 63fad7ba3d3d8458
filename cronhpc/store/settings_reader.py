"""The structure of `cronhpc.yaml`: sections, keys and single values, each complaint with its line and fix."""

from __future__ import annotations

import os
import re
import shlex
from signal import Signals
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from cronhpc.core import model
from cronhpc.core.model import ALL, EntryRow, Problem, Settings, SettingsError, SwitchSetting
from cronhpc.cron import values
from cronhpc.cron.duration import DurationError, parse_duration
from cronhpc.cron.values import replace
from cronhpc.script import sbatch_options as known
from cronhpc.store import schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from cronhpc.store.schema import Setting


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
    line = mark.line + 1
    here = "".join(text.splitlines()[mark.line : line])
    complaint = str(error.problem or error.context).strip()
    started = error.context_mark.line + 1 if error.context_mark else line
    if started != line:
        complaint += f" ({error.context}, from line {started})"
    return Problem(
        "E601", f"not YAML: {complaint}, at {here.strip()[:60]!r}.", _fix(here, here[mark.column :][:1]), file, line
    )


def _fix(here: str, char: str) -> str:
    """By the line at fault, and the character in it that cannot stand there."""
    if "\t" in {char, *here[: len(here) - len(here.lstrip())]}:
        return "Indent with blanks, not tabs."
    value = here.partition(":")[2].strip()
    if value[:1] in {"*", "@", "%", "`", "&", "!", "|", ">"}:
        return f'Put the value in quotes: {here.partition(":")[0].strip()}: "{value}".'
    if char == ":" and ": " in f"{value} ":
        return f"A value that holds ': ' needs quotes: {here.partition(':')[0].strip()}: '{value}'."
    if here.startswith("---"):
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
        self.of_rows: list[Problem] = []  # about rows of `entries`, which harm only themselves
        self.lines: dict[str, int] = {}  # of each setting

    def section(self, node: Node, prefix: str = "") -> dict[str, Any]:
        """The settings below `prefix` ("" or "scheduler."), by field."""
        by_field: dict[str, Any] = {}
        for name, (key, value) in self.fields(node, prefix.rstrip("."), schema.level(prefix)).items():
            path = prefix + name
            self.lines[path] = line_of(key)
            setting = schema.BY_KEY.get(path)
            if setting is None:
                by_field |= self.section(value, path + ".")
            elif not is_null(value):
                got = KINDS[setting.kind].read(self, setting, value)
                if got is not None:
                    by_field[setting.field] = got
        return by_field

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
                fix = f"Write keys under it, each with a value: {where or 'timezone'}: …"
                if meant := _meant(node, where):
                    fix = f"Write {where}: {{{meant}: {node.value}}}"
                self.bad(node, where, f"{in_words(node)} where keys and values belong.", fix)
            return {}
        for key, value in pairs(node):
            name = key.value if key.id == "scalar" else ""
            if key.id != "scalar" or "\0" in name:
                self.bad(key, where, f"{in_words(key)} as a key.", "A key is one text.")
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
        place = f" under {where}" if where else ""
        elsewhere = [row.key for row in schema.TABLE if row.key.split(".")[-1] == name]
        near = nearest(name, allowed)
        if near:
            fix = f"Did you mean {near}?"
        elif elsewhere:
            fix = f"It belongs under {elsewhere[0].rpartition('.')[0] or 'no other key'}."
        else:
            fix = f"Known here: {', '.join(allowed)}."
        self.bad(key, join(where, name), f"unknown key {name!r}{place}.", fix, "E602")

    def row(self, key: Node, name: str, node: Node) -> EntryRow | None:
        """A row of `entries`, with the first thing that is wrong with it."""
        apart = Reader(self.file)
        row = _entry(apart, key, name, node)
        self.of_rows += apart.problems
        return replace(row, problem=apart.problems[0]) if row and apart.problems else row

    def bad(self, node: Node, key: str, what: str, fix: str, code: str = "E603") -> None:
        self.problems.append(Problem(code, what, fix, self.file, line_of(node), key))

    def scalar(self, node: Node, key: str, want: str) -> str | None:
        """The text as written (YAML's own guesses, as `off` or 1:30, are not asked); None where it is none."""
        if node.id != "scalar":
            self.bad(node, key, f"{key}: {in_words(node)} where {want} belongs.", f"Write {last(key)}: {want}.")
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
            self.bad(node, key, f"{key}: {in_words(node)} where {want} belongs.", f"Write {last(key)}: [{want}].")
            return None
        items = node.value if node.id == "sequence" else [node]
        texts = [(item, self.scalar(item, key, want)) for item in items]
        return [(item, text) for item, text in texts if text]

    def path(self, node: Node, key: str, text: str) -> str:
        """An absolute path, `~` expanded; variables are not, as they differ between nodes."""
        path = os.path.expanduser(text)
        if not path.startswith("/"):
            fix = "Write the path out: variables are not expanded here." if "$" in text else "Write it from / or ~/ on."
            self.bad(node, key, f"{key}: {text!r} is no absolute path.", fix)
        return os.path.normpath(path) if path else path

    def duration(self, node: Node, key: str, text: str, least: int = 0) -> int | None:
        """Seconds."""
        try:
            seconds = parse_duration(text.strip())
        except DurationError as error:
            self.bad(node, key, f"{key}: {error.what}", error.fix)
            return None
        if seconds < least:
            self.bad(node, key, f"{key}: {text!r} is too short.", f"Write at least {least}s.")
        return seconds


def _meant(node: Node, section: str) -> str:
    """The key that a plain word in the place of `section` is most likely for; "" where none is, or no word is there."""
    if node.id != "scalar":
        return ""
    text = str(node.value)
    way = "webhook" if "://" in text or text.startswith("file:") else "mail" if "@" in text else "command"
    keys = {"alerts": way, "scheduler": "interval", "logs": "keep", "kill": "group", "trust": "owners"}
    return keys.get(section, "")


def in_words(node: Node) -> str:
    """What stands there, in words."""
    if node.id == "scalar":
        return f"{str(node.value)[:40]!r}"
    return "a list" if node.id == "sequence" else "keys and values"


def last(key: str) -> str:
    return key.rpartition(".")[2]


def join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name most like a misspelt one, or None."""
    return values.nearest(name.lower().replace("_", "-"), allowed)


# --- kinds of values --------------------------------------------------------------------------------------------------
#
# One reader for each; KINDS, at the end, has them all.


_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmgtp]?)(?:i?b)?", re.IGNORECASE | re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WARN = re.compile(r"(?:SIG)?([A-Za-z]+[0-9]*)@(\S+)")
_TRUE = frozenset({"yes", "true", "on"})
_FALSE = frozenset({"no", "false", "off"})
_NOT_IN_SETTINGS = {
    "wrap": "Use command: in an entry.",
    "clusters": "Use the key cluster: at the top.",
    "wait": "cronhpc follows its runs itself: remove it.",
    "test-only": "Nothing would run: remove it.",
    "parsable": "It changes nothing here: remove it.",
    "quiet": "Remove it: the job's number would not be told.",
    "hold": "Remove it: a run begins at its time; to hold an entry: " + model.command("pause", "NAME") + ".",
    "help": "Remove it.",
    "usage": "Remove it.",
    "version": "Remove it.",
}

_NOT_OF_LINKS = {
    **_NOT_IN_SETTINGS,
    "job-name": "Remove it: the scheduler's jobs have names by which they are found.",
    "begin": "Remove it: the scheduler's jobs begin at times of their own; see scheduler: {interval: 30m}.",
    "deadline": "Remove it: a scheduler's job that starts late still has work to do.",
    "immediate": "Remove it: the scheduler's jobs wait for their time.",
    "array": "Remove it: each task would be a scheduler of its own.",
    "hold": "Remove it: the scheduler would never start; to end it: " + model.command("stop") + ".",
    "requeue": "Remove it: the next job takes over from one that was lost.",
    "dependency": "Remove it: the scheduler would wait for that job, and end with it.",
    **dict.fromkeys(
        ("output", "error", "open-mode"), "Remove it: the scheduler's jobs write to scheduler/scheduler.log."
    ),
    **dict.fromkeys(
        ("chdir", "input"), "Remove it: the scheduler's jobs need no file to start, so no node can fail to have it."
    ),
}


def _text(reader: Reader, setting: Setting, node: Node) -> str | None:
    text = reader.scalar(node, setting.key, setting.example)
    if text is not None and "\n" in text.strip():
        reader.bad(node, setting.key, f"{setting.key}: more than one line.", "Write it on one line.")
    return text.strip() if text is not None else None


def _choice(reader: Reader, setting: Setting, node: Node) -> str | None:
    text = reader.scalar(node, setting.key, " or ".join(setting.choices))
    if text is not None and text not in setting.choices:
        near = nearest(text, setting.choices)
        fix = f"Did you mean {near}?" if near else f"Write {' or '.join(setting.choices)}."
        reader.bad(node, setting.key, f"{setting.key}: {text!r} is not known.", fix)
    return text


def _file(reader: Reader, setting: Setting, node: Node) -> str | None:
    text = _text(reader, setting, node)
    if text and text.lower() in _TRUE | _FALSE:
        reader.bad(
            node, setting.key, f"{setting.key}: {text!r} is no path.", f"Write {setting.key}: {setting.example}."
        )
    return os.path.expanduser(text) if text else text


def _texts(reader: Reader, setting: Setting, node: Node) -> tuple[str, ...] | None:
    items = reader.scalars(node, setting.key, setting.example.strip("[]"))
    return None if items is None else tuple(text for _, text in items)


_MAIL = re.compile(r"[^\s@<>,;\"-][^\s@<>,;\"]*(?:@[^\s@<>,;\"]+)?")


def _mails(reader: Reader, setting: Setting, node: Node) -> tuple[str, ...] | None:
    items = reader.scalars(node, setting.key, setting.example)
    mails = [(item, mail.strip()) for item, text in items or () for mail in text.split(",") if mail.strip()]
    for item, mail in mails:
        if not _MAIL.fullmatch(mail):
            fix = f"Write the address alone: {setting.example}."
            reader.bad(item, setting.key, f"{setting.key}: {mail!r} is no mail address.", fix)
    return None if items is None else tuple(mail for _, mail in mails)


def _names(reader: Reader, setting: Setting, node: Node) -> tuple[str, ...] | None:
    items = reader.scalars(node, setting.key, "PATH, HOME")
    for item, text in items or ():
        if not _VARIABLE.fullmatch(text):
            reader.bad(item, setting.key, f"{setting.key}: {text!r} is no variable name.", "List names: [PATH, HOME].")
    return None if items is None else tuple(text for _, text in items)


def _paths(reader: Reader, setting: Setting, node: Node) -> tuple[str, ...] | None:
    items = reader.scalars(node, setting.key, setting.example.strip("[]"))
    return None if items is None else tuple(reader.path(item, setting.key, text) for item, text in items)


def _duration(reader: Reader, setting: Setting, node: Node) -> int | None:
    text = reader.scalar(node, setting.key, setting.example)
    return None if text is None else reader.duration(node, setting.key, text, setting.least)


def _size(reader: Reader, setting: Setting, node: Node) -> int | None:
    text = reader.scalar(node, setting.key, setting.example)
    match = _SIZE.fullmatch(text.strip()) if text is not None else None
    if text is not None and match is None:
        reader.bad(
            node, setting.key, f"{setting.key}: {text!r} is no size.", "Write a number with K, M, G or T, as 5G."
        )
    return int(float(match[1]) * _SIZES[match[2].lower()]) if match else None


def _count(reader: Reader, setting: Setting, node: Node) -> int | None:
    text = reader.scalar(node, setting.key, setting.example)
    if text is None:
        return None
    digits = text.strip().replace("_", "")
    if not (digits.isascii() and digits.isdecimal() and int(digits) >= setting.least):
        fix = f"Write a whole number from {setting.least} on."
        reader.bad(node, setting.key, f"{setting.key}: {text!r} will not do.", fix)
        return None
    return int(digits)


def _sbatch(reader: Reader, setting: Setting, node: Node) -> tuple[tuple[str, str], ...]:
    refused = _NOT_OF_LINKS if setting.field == "link_sbatch" else _NOT_IN_SETTINGS
    given = _options(reader, node, setting.key, refused)
    names = {name for name, _ in given}
    return (*(row for row in getattr(Settings(), setting.field) if row[0] not in names), *given)


def _options(
    reader: Reader, node: Node, where: str, refused: Mapping[str, str] = _NOT_IN_SETTINGS
) -> tuple[tuple[str, str], ...]:
    """The long options of sbatch; `true` means the bare option, and `false` that it is not asked for.

    `refused`: options that cannot be set there, and what to do instead.
    """
    options = []
    for name, (key, value) in reader.mapping(node, where).items():
        option = _option(reader, key, name, where, refused)
        text = _option_value(reader, value, join(where, name))
        if option == "priority" and text is not None and known.is_held(text):
            reader.bad(value, join(where, name), "priority 0 is a held job.", "Write a number above zero.")
        elif option and text is not None:
            options.append((option, text))
    return tuple(options)


def _option(reader: Reader, key: Node, name: str, where: str, refused: Mapping[str, str]) -> str | None:
    bare = name.removeprefix("#SBATCH").strip().lstrip("-")
    begun = known.candidates(bare) if bare else ()
    long = known.SHORT.get(bare) or (begun[0] if len(begun) == 1 else bare)
    at = join(where, name)
    if long in refused:
        reader.bad(key, at, f"{name} cannot be set here.", refused[long])
    elif bare in known.SHORT:
        reader.bad(key, at, f"-{bare} is a short option.", f"Write {long}.", "E602")
    elif name != bare:
        reader.bad(key, at, f"{name!r} is written with dashes.", f"Write {long}.", "E602")
    elif long != known.ALIASES.get(name, name):
        reader.bad(key, at, f"sbatch has no option {name!r}.", f"Did you mean {long}?", "E602")
    elif long not in known.LONG and not known.is_plugin_option(long):
        near = known.nearest(name)
        fix = f"Did you mean {near}?" if near else "Write it as sbatch --help has it, without dashes."
        reader.bad(key, at, f"sbatch has no option {name!r}.", fix, "E602")
    else:
        return long
    return None


def _option_value(reader: Reader, node: Node, key: str) -> str | None:
    if node.id == "sequence" and all(item.id == "scalar" for item in node.value):
        return ",".join(str(item.value) for item in node.value)
    if node.id == "scalar" and node.value == "":
        return ""
    text = reader.scalar(node, key, "a value")
    if text is None or last(key) in known.VALUE:
        return text
    return {**dict.fromkeys(_TRUE, ""), **dict.fromkeys(_FALSE)}.get(text.lower(), text)


def _folders(reader: Reader, setting: Setting, node: Node) -> tuple[tuple[str, str], ...]:
    given = {}
    for name, (_, value) in reader.fields(node, setting.key, schema.FOLDERS).items():
        text = reader.scalar(value, f"{setting.key}.{name}", '"H 4 * * *"')
        if text:
            given[name] = text.strip()
    return tuple((name, given.get(name, plain)) for name, plain in Settings().folders)


def _policies(reader: Reader, setting: Setting, node: Node) -> tuple[tuple[str, str | None, int], ...]:
    return _policy_rows(reader, reader.fields(node, setting.key, schema.POLICIES), setting.key)


def _policy_rows(reader: Reader, fields: Fields, where: str) -> tuple[tuple[str, str | None, int], ...]:
    """(name, value as written, line); core.policy judges the values."""
    rows = []
    for name, (key, value) in fields.items():
        text = reader.scalar(value, join(where, name), "one value")
        if text is not None:
            rows.append((name, text, line_of(key)))
    return tuple(rows)


def _patterns(reader: Reader, setting: Setting, node: Node) -> tuple[tuple[str, str], ...]:
    rows = []
    for folder, (key, value) in reader.mapping(node, setting.key).items():
        text = reader.scalar(value, join(setting.key, folder), '"*.out"')
        if text and ("/" in text or text in {".", ".."}):
            reader.bad(
                value, setting.key, f"{setting.key}: pattern {text!r} holds a /.", 'Write a file pattern: "*.out".'
            )
        if text:
            rows.append((reader.path(key, setting.key, folder), text))
    return tuple(rows)


def _entries(reader: Reader, setting: Setting, node: Node) -> tuple[EntryRow, ...]:
    rows = (reader.row(key, name, value) for name, (key, value) in reader.mapping(node, setting.key).items())
    return tuple(row for row in rows if row)


def _entry(reader: Reader, key: Node, name: str, node: Node) -> EntryRow | None:
    where = f"entries.{name}"
    if not name.strip() or "/" in name or name in {".", ".."}:
        reader.bad(key, where, f"{name!r} cannot name an entry.", "Use a name without /, that is not empty, . or …")
        return None
    fields = reader.fields(node, where, schema.ENTRY_KEYS)
    texts = {each: _field(reader, fields, where, each) for each in ("schedule", "script")}
    row = EntryRow(
        name=name,
        line=line_of(key),
        schedule=texts["schedule"],
        command=_command(reader, fields, where),
        script=os.path.expanduser(texts["script"]),
        sbatch=_options(reader, fields["sbatch"][1], f"{where}.sbatch") if "sbatch" in fields else (),
        policies=_policy_rows(reader, {k: v for k, v in fields.items() if k in schema.POLICIES}, where),
        environment=_variables(reader, fields["environment"][1], where) if "environment" in fields else (),
    )
    if not reader.problems:  # a misspelt key is no missing one besides
        _complete(reader, key, row, where)
    return row


def _complete(reader: Reader, key: Node, row: EntryRow, where: str) -> None:
    if not row.schedule:
        reader.bad(key, where, f"{where}: no schedule.", f'Add schedule: "H 4 * * *" under {row.name}.', "E605")
    if not row.command and not row.script:
        reader.bad(key, where, f"{where}: nothing to run.", f"Add command: or script: under {row.name}.", "E605")
    if row.command and row.script:
        reader.bad(key, where, f"{where}: both command and script.", "Keep one of them.", "E605")


def _field(reader: Reader, fields: Fields, where: str, name: str) -> str:
    if name not in fields:
        return ""
    return (reader.scalar(fields[name][1], f"{where}.{name}", "one text") or "").strip()


def _command(reader: Reader, fields: Fields, where: str) -> str:
    if "command" not in fields:
        return ""
    node = fields["command"][1]
    if node.id == "sequence":
        return shlex.join(text for _, text in reader.scalars(node, f"{where}.command", "a word") or ())
    return (reader.scalar(node, f"{where}.command", "one text or a list of words") or "").strip()


def _variables(reader: Reader, node: Node, where: str) -> tuple[tuple[str, str], ...]:
    rows = []
    for name, (key, value) in reader.mapping(node, f"{where}.environment").items():
        at = f"{where}.environment.{name}"
        text = value.value if value.id == "scalar" and value.value == "" else reader.scalar(value, at, "one text")
        if not _VARIABLE.fullmatch(name):
            reader.bad(key, at, f"{name!r} is no variable name.", "Use letters, digits and _.")
        elif text is not None:
            rows.append((name, text))
    return tuple(rows)


def _switches(reader: Reader, setting: Setting, node: Node) -> tuple[SwitchSetting, ...]:
    rows = [_switch(reader, key, name, value) for name, (key, value) in reader.mapping(node, setting.key).items()]
    return tuple(row for row in rows if row)


def _switch(reader: Reader, key: Node, name: str, node: Node) -> SwitchSetting | None:
    where = f"kill.switches.{name}"
    if not name.strip() or "/" in name or name.startswith(".") or name == ALL:
        reader.bad(key, where, f"{name!r} cannot name a switch.", "Use a file name without / that is not ALL.")
        return None
    problems = len(reader.problems)
    fields = reader.fields(node, where, schema.SWITCH_KEYS)
    signal, before = _warn(reader, fields, where)
    jobs = _reached(reader, fields, where)
    if not any(jobs.values()) and len(reader.problems) == problems:
        reader.bad(key, where, f"{where}: reaches no jobs.", 'Add jobs: {name: "tr17-*"}.', "E605")
    return SwitchSetting(
        name=name,
        jobs=jobs.get("name", ""),
        partition=jobs.get("partition", ""),
        account=jobs.get("account", ""),
        workdir=jobs.get("workdir", ""),
        file=_absolute(reader, fields, where, "file"),
        warn_signal=signal,
        warn_before=before,
    )


def _reached(reader: Reader, fields: Fields, where: str) -> dict[str, str]:
    if "jobs" not in fields:
        return {}
    where = f"{where}.jobs"
    jobs = reader.fields(fields["jobs"][1], where, schema.SWITCH_JOB_KEYS)
    read = {"workdir": _absolute}
    return {name: read.get(name, _field)(reader, jobs, where, name) for name in jobs}


def _absolute(reader: Reader, fields: Fields, where: str, name: str) -> str:
    text = _field(reader, fields, where, name)
    return reader.path(fields[name][1], f"{where}.{name}", text) if text else ""


def _warn(reader: Reader, fields: Fields, where: str) -> tuple[str, int]:
    text = _field(reader, fields, where, "warn")
    if not text:
        return "", 0
    node = fields["warn"][1]
    match = _WARN.fullmatch(text)
    if match is None or f"SIG{match[1].upper()}" not in Signals.__members__:
        reader.bad(node, f"{where}.warn", f"{where}.warn: {text!r} will not do.", "Write SIGNAL@TIME, as USR1@5m.")
        return "", 0
    return match[1].upper(), reader.duration(node, f"{where}.warn", match[2], 1) or 0


class Kind(NamedTuple):
    """What a value may be, in words, and what reads it: from a node to the value in Settings, None where it is none."""

    words: str
    read: Callable[[Reader, Setting, Node], Any]


KINDS = {
    "text": Kind("text", _text),
    "choice": Kind("one of", _choice),
    "texts": Kind("list of texts", _texts),
    "mails": Kind("mail addresses", _mails),
    "names": Kind("list of variable names", _names),
    "paths": Kind("list of absolute paths", _paths),
    "file": Kind("path, in the cron directory unless absolute", _file),
    "duration": Kind("duration: 90s, 10m, 1h30m, 7d", _duration),
    "size": Kind("size: 500M, 5G", _size),
    "count": Kind("whole number", _count),
    "sbatch": Kind("sbatch options, long names without dashes", _sbatch),
    "folders": Kind("schedule for hourly, daily, weekly, monthly", _folders),
    "policies": Kind("policies, as after a #CRON line's schedule, without dashes", _policies),
    "entries": Kind("name: {schedule, command or script, sbatch, environment, policies}", _entries),
    "switches": Kind("name: {jobs: {name, partition, account, workdir}, file, warn}", _switches),
    "patterns": Kind("folder: file pattern", _patterns),
}
