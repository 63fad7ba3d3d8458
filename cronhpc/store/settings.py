"""`cronhpc.yaml` to Settings: every key typed, every complaint with file, line, key and the mend."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Any

from cronhpc.core.model import EntryRow, Problem, Settings, SettingsError, SwitchSetting
from cronhpc.store.files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from cronhpc.store.schema import Setting
    from cronhpc.store.yaml_nodes import Node

Fields = dict[str, tuple["Node", "Node"]]  # key as written: its node and its value's, nulls left out

_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?", re.IGNORECASE)
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
    "help": "Remove it.",
    "usage": "Remove it.",
    "version": "Remove it.",
}


def read_settings(path: Path) -> Settings:
    """The settings in the file `path`. Raises SettingsError with every problem found, by line."""
    name = path.name
    try:
        data = read_bytes(path)
    except OSError as error:
        what = f"cannot be read: {error.strerror}."
        raise SettingsError(
            (Problem("E300", what, f"Make it readable: chmod u+r {shlex.quote(str(path))}", name),)
        ) from None
    if data is None:
        raise SettingsError((Problem("E300", "is missing.", "Make it with: cronhpc init", name),))
    return parse_settings(data, name)


def parse_settings(data: bytes, file: str = "cronhpc.yaml") -> Settings:
    """The settings in `data`; an empty file means all defaults. Raises SettingsError."""
    from cronhpc.store.yaml_nodes import compose

    root = compose(data, file)
    reader = _Reader(file)
    found: dict[str, Any] = {}
    if root is not None:
        reader.section(root, "", found)
    _fit_intervals(reader, found)
    if reader.problems:
        raise SettingsError(tuple(sorted(reader.problems, key=lambda p: p.line)))
    return Settings(**found)


def _fit_intervals(reader: _Reader, found: dict[str, Any]) -> None:
    plain = Settings()
    interval = found.get("interval", plain.interval)
    least = found.get("min_interval")
    if least is None:
        found["min_interval"] = min(plain.min_interval, interval)
    elif least > interval:
        line = reader.lines.get("scheduler.min-interval", 0)
        what = f"min-interval ({least} s) is longer than interval ({interval} s)."
        reader.problems.append(
            Problem(
                "E303",
                what,
                "Make interval longer or min-interval shorter.",
                reader.file,
                line,
                "scheduler.min-interval",
            )
        )


class _Reader:
    """One pass over the nodes. What is wrong is noted, and the walk goes on, so that all is said at once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.lines: dict[str, int] = {}

    # --- structure

    def section(self, node: Node, prefix: str, found: dict[str, Any]) -> None:
        """The settings below `prefix` ("" or "scheduler.") into `found`, by field."""
        from cronhpc.store import schema

        for name, (key, value) in self.fields(node, prefix.rstrip("."), schema.level(prefix)).items():
            path = prefix + name
            self.lines[path] = key.start_mark.line + 1
            setting = schema.BY_KEY.get(path)
            if setting is None:
                self.section(value, path + ".", found)
                continue
            read: Callable[[Setting, Node], Any] = getattr(self, f"_{setting.kind}")
            got = read(setting, value)
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
        from cronhpc.store.yaml_nodes import is_null, line_of, pairs

        fields: Fields = {}
        if node.id != "mapping":
            if not is_null(node):
                mend = f"Write keys under it, each with a value: {where or 'timezone'}: …"
                self.bad(node, where, f"{_said(node)} where keys and values belong.", mend)
            return {}
        empty = set()
        for key, value in pairs(node):
            name = key.value if key.id == "scalar" else ""
            if key.id != "scalar" or "\0" in name:
                self.bad(key, where, f"{_said(key)} as a key.", "A key is one text.")
            elif name in fields or name in empty:
                first = f", first in line {line_of(fields[name][0])}" if name in fields else ""
                self.bad(key, _join(where, name), f"{name} stands here twice{first}.", "Keep one of them.", "E304")
            elif is_null(value):
                empty.add(name)
                fields[name] = (key, value)
            else:
                fields[name] = (key, value)
        return fields

    def _unknown(self, key: Node, name: str, where: str, allowed: tuple[str, ...]) -> None:
        from cronhpc.store import schema

        place = f" under {where}" if where else ""
        elsewhere = [row.key for row in schema.TABLE if row.key.split(".")[-1] == name]
        near = _nearest(name, allowed)
        if near:
            mend = f"Did you mean {near}?"
        elif elsewhere:
            mend = f"It belongs under {elsewhere[0].rpartition('.')[0] or 'no other key'}."
        else:
            mend = f"Known here: {', '.join(allowed)}."
        self.bad(key, _join(where, name), f"unknown key {name!r}{place}.", mend, "E302")

    def bad(self, node: Node, key: str, what: str, mend: str, code: str = "E303") -> None:
        """Note what is wrong at `node`."""
        self.problems.append(Problem(code, what, mend, self.file, node.start_mark.line + 1, key))

    def scalar(self, node: Node, key: str, want: str) -> str | None:
        """The text as written (YAML's own guesses, as `off` or 1:30, are not asked); None where it is none."""
        from cronhpc.store.yaml_nodes import is_null

        if node.id != "scalar":
            self.bad(node, key, f"{key}: {_said(node)} where {want} belongs.", f"Write {_last(key)}: {want}.")
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
        from cronhpc.store.yaml_nodes import is_null

        if is_null(node):
            return None
        if node.id == "mapping":
            self.bad(node, key, f"{key}: {_said(node)} where {want} belongs.", f"Write {_last(key)}: [{want}].")
            return None
        items = node.value if node.id == "sequence" else [node]
        texts = [(item, self.scalar(item, key, want)) for item in items]
        return [(item, text) for item, text in texts if text]

    # --- kinds of settings

    def _text(self, setting: Setting, node: Node) -> str | None:
        text = self.scalar(node, setting.key, setting.example)
        if text is not None and "\n" in text.strip():
            self.bad(node, setting.key, f"{setting.key}: more than one line.", "Write it on one line.")
        return text.strip() if text is not None else None

    def _choice(self, setting: Setting, node: Node) -> str | None:
        text = self.scalar(node, setting.key, " or ".join(setting.choices))
        if text is not None and text not in setting.choices:
            near = _nearest(text, setting.choices)
            mend = f"Did you mean {near}?" if near else f"Write {' or '.join(setting.choices)}."
            self.bad(node, setting.key, f"{setting.key}: {text!r} is not known.", mend)
        return text

    def _file(self, setting: Setting, node: Node) -> str | None:
        text = self._text(setting, node)
        if text and text.lower() in _TRUE | _FALSE:
            self.bad(
                node, setting.key, f"{setting.key}: {text!r} is no path.", f"Write {setting.key}: {setting.example}."
            )
        return os.path.expanduser(text) if text else text

    def _texts(self, setting: Setting, node: Node) -> tuple[str, ...] | None:
        items = self.scalars(node, setting.key, setting.example.strip("[]"))
        return None if items is None else tuple(text for _, text in items)

    def _names(self, setting: Setting, node: Node) -> tuple[str, ...] | None:
        items = self.scalars(node, setting.key, "PATH, HOME")
        for item, text in items or ():
            if not _VARIABLE.fullmatch(text):
                self.bad(
                    item, setting.key, f"{setting.key}: {text!r} is no variable name.", "List names: [PATH, HOME]."
                )
        return None if items is None else tuple(text for _, text in items)

    def _paths(self, setting: Setting, node: Node) -> tuple[str, ...] | None:
        items = self.scalars(node, setting.key, setting.example.strip("[]"))
        return None if items is None else tuple(self.path(item, setting.key, text) for item, text in items)

    def path(self, node: Node, key: str, text: str) -> str:
        """An absolute path, `~` expanded; variables are not, as they differ between nodes."""
        path = os.path.expanduser(text)
        if not path.startswith("/"):
            mend = (
                "Write the path out: variables are not expanded here." if "$" in text else "Write it from / or ~/ on."
            )
            self.bad(node, key, f"{key}: {text!r} is no absolute path.", mend)
        return os.path.normpath(path) if path else path

    def _duration(self, setting: Setting, node: Node) -> int | None:
        text = self.scalar(node, setting.key, setting.example)
        return None if text is None else self.duration(node, setting.key, text, setting.least)

    def duration(self, node: Node, key: str, text: str, least: int = 0) -> int | None:
        """Seconds."""
        from cronhpc.core.duration import DurationError, parse_duration

        try:
            seconds = parse_duration(text.strip())
        except DurationError as error:
            self.bad(node, key, f"{key}: {error.what}", error.mend)
            return None
        if seconds < least:
            self.bad(node, key, f"{key}: {text!r} is too short.", f"Write at least {least}s.")
        return seconds

    def _size(self, setting: Setting, node: Node) -> int | None:
        text = self.scalar(node, setting.key, setting.example)
        match = _SIZE.fullmatch(text.strip()) if text is not None else None
        if text is not None and match is None:
            self.bad(
                node, setting.key, f"{setting.key}: {text!r} is no size.", "Write a number with K, M, G or T, as 5G."
            )
        return int(float(match[1]) * _SIZES[match[2].lower()]) if match else None

    def _count(self, setting: Setting, node: Node) -> int | None:
        text = self.scalar(node, setting.key, setting.example)
        if text is None:
            return None
        digits = text.strip().replace("_", "")
        if not (digits.isascii() and digits.isdecimal() and int(digits) >= setting.least):
            mend = f"Write a whole number from {setting.least} on."
            self.bad(node, setting.key, f"{setting.key}: {text!r} will not do.", mend)
            return None
        return int(digits)

    # --- tables

    def _sbatch(self, setting: Setting, node: Node) -> tuple[tuple[str, str], ...] | None:
        return self.sbatch(node, setting.key)

    def sbatch(self, node: Node, where: str) -> tuple[tuple[str, str], ...]:
        """The long options of sbatch; `true` means the bare option, and `false` that it is not asked for."""
        options = []
        for name, (key, value) in self.mapping(node, where).items():
            option = self._option(key, name, where)
            text = self._option_value(value, _join(where, name))
            if option and text is not None:
                options.append((option, text))
        return tuple(options)

    def _option(self, key: Node, name: str, where: str) -> str | None:
        from cronhpc.core import sbatch_options as known

        bare = name.lstrip("-")
        long = known.ALIASES.get(bare, bare)
        at = _join(where, name)
        if name in known.SHORT:
            self.bad(key, at, f"-{name} is a short option.", f"Write {known.SHORT[name]}.", "E302")
        elif name != bare:
            self.bad(key, at, f"{name!r} is written with dashes.", f"Write {bare}.", "E302")
        elif long in _NOT_IN_SETTINGS:
            self.bad(key, at, f"{name} cannot be set here.", _NOT_IN_SETTINGS[long])
        elif long not in known.LONG and not known.is_plugin_option(long):
            near = known.nearest(name)
            mend = f"Did you mean {near}?" if near else "Write it as sbatch --help has it, without dashes."
            self.bad(key, at, f"sbatch has no option {name!r}.", mend, "E302")
        else:
            return long
        return None

    def _option_value(self, node: Node, key: str) -> str | None:
        from cronhpc.core import sbatch_options as known

        if node.id == "sequence" and all(item.id == "scalar" for item in node.value):
            return ",".join(str(item.value) for item in node.value)
        if node.id == "scalar" and node.value == "":
            return ""
        text = self.scalar(node, key, "a value")
        if text is None or _last(key) in known.VALUE:
            return text
        return {**dict.fromkeys(_TRUE, ""), **dict.fromkeys(_FALSE)}.get(text.lower(), text)

    def _folders(self, setting: Setting, node: Node) -> tuple[tuple[str, str], ...]:
        from cronhpc.store import schema

        given = {}
        for name, (_, value) in self.fields(node, setting.key, schema.FOLDERS).items():
            text = self.scalar(value, f"{setting.key}.{name}", '"H 4 * * *"')
            if text:
                given[name] = text.strip()
        return tuple((name, given.get(name, plain)) for name, plain in Settings().folders)

    def _policies(self, setting: Setting, node: Node) -> tuple[tuple[str, str | None, int], ...]:
        from cronhpc.store import schema

        return self.policies(self.fields(node, setting.key, schema.POLICIES), setting.key)

    def policies(self, fields: Fields, where: str) -> tuple[tuple[str, str | None, int], ...]:
        """(name, value as written, line); core.policy judges the values."""
        rows = []
        for name, (key, value) in fields.items():
            text = self.scalar(value, _join(where, name), "one value")
            if text is not None:
                rows.append((name, text, key.start_mark.line + 1))
        return tuple(rows)

    def _patterns(self, setting: Setting, node: Node) -> tuple[tuple[str, str], ...]:
        rows = []
        for folder, (key, value) in self.mapping(node, setting.key).items():
            text = self.scalar(value, _join(setting.key, folder), '"*.out"')
            if text and ("/" in text or text in {".", ".."}):
                self.bad(
                    value, setting.key, f"{setting.key}: pattern {text!r} holds a /.", 'Write a file pattern: "*.out".'
                )
            if text:
                rows.append((self.path(key, setting.key, folder), text))
        return tuple(rows)

    def _entries(self, setting: Setting, node: Node) -> tuple[EntryRow, ...]:
        rows = [self._entry(key, name, value) for name, (key, value) in self.mapping(node, setting.key).items()]
        return tuple(row for row in rows if row)

    def _entry(self, key: Node, name: str, node: Node) -> EntryRow | None:
        from cronhpc.store import schema

        where = f"entries.{name}"
        if not name.strip() or "/" in name or name in {".", ".."}:
            self.bad(key, where, f"{name!r} cannot name an entry.", "Use a name without /, that is not empty, . or …")
            return None
        fields = self.fields(node, where, schema.ENTRY_KEYS)
        texts = {each: self._entry_text(fields, where, each) for each in ("schedule", "script")}
        row = EntryRow(
            name=name,
            line=key.start_mark.line + 1,
            schedule=texts["schedule"],
            command=self._command(fields, where),
            script=texts["script"],
            sbatch=self.sbatch(fields["sbatch"][1], f"{where}.sbatch") if "sbatch" in fields else (),
            policies=self.policies({k: v for k, v in fields.items() if k in schema.POLICIES}, where),
            environment=self._variables(fields["environment"][1], where) if "environment" in fields else (),
        )
        self._complete(key, row, where)
        return row

    def _complete(self, key: Node, row: EntryRow, where: str) -> None:
        if not row.schedule:
            self.bad(key, where, f"{where}: no schedule.", f'Add schedule: "H 4 * * *" under {row.name}.', "E305")
        if not row.command and not row.script:
            self.bad(key, where, f"{where}: nothing to run.", f"Add command: or script: under {row.name}.", "E305")
        if row.command and row.script:
            self.bad(key, where, f"{where}: both command and script.", "Keep one of them.", "E305")

    def _entry_text(self, fields: Fields, where: str, name: str) -> str:
        if name not in fields:
            return ""
        return (self.scalar(fields[name][1], f"{where}.{name}", "one text") or "").strip()

    def _command(self, fields: Fields, where: str) -> str:
        if "command" not in fields:
            return ""
        node = fields["command"][1]
        if node.id == "sequence":
            return shlex.join(text for _, text in self.scalars(node, f"{where}.command", "a word") or ())
        return (self.scalar(node, f"{where}.command", "one text or a list of words") or "").strip()

    def _variables(self, node: Node, where: str) -> tuple[tuple[str, str], ...]:
        rows = []
        for name, (key, value) in self.mapping(node, f"{where}.environment").items():
            at = f"{where}.environment.{name}"
            text = value.value if value.id == "scalar" and value.value == "" else self.scalar(value, at, "one text")
            if not _VARIABLE.fullmatch(name):
                self.bad(key, at, f"{name!r} is no variable name.", "Use letters, digits and _.")
            elif text is not None:
                rows.append((name, text))
        return tuple(rows)

    def _switches(self, setting: Setting, node: Node) -> tuple[SwitchSetting, ...]:
        rows = [self._switch(key, name, value) for name, (key, value) in self.mapping(node, setting.key).items()]
        return tuple(row for row in rows if row)

    def _switch(self, key: Node, name: str, node: Node) -> SwitchSetting | None:
        from cronhpc.store import schema

        where = f"kill.switches.{name}"
        if not name.strip() or "/" in name or name.startswith(".") or name == "ALL":
            self.bad(key, where, f"{name!r} cannot name a switch.", "Use a file name without / that is not ALL.")
            return None
        fields = self.fields(node, where, schema.SWITCH_KEYS)
        jobs = self.fields(fields["jobs"][1], f"{where}.jobs", schema.SWITCH_JOB_KEYS) if "jobs" in fields else {}
        texts = {k: (self.scalar(v[1], f"{where}.jobs.{k}", "one text") or "").strip() for k, v in jobs.items()}
        if not any(texts.values()):
            self.bad(key, where, f"{where}: reaches no jobs.", 'Add jobs: {name: "tr17-*"}.', "E305")
        file = self._entry_text(fields, where, "file")
        signal, before = self._warn(fields, where)
        return SwitchSetting(
            name=name,
            jobs=texts.get("name", ""),
            partition=texts.get("partition", ""),
            account=texts.get("account", ""),
            workdir=self.path(jobs["workdir"][1], f"{where}.jobs.workdir", texts["workdir"])
            if texts.get("workdir")
            else "",
            file=self.path(fields["file"][1], f"{where}.file", file) if file else "",
            warn_signal=signal,
            warn_before=before,
        )

    def _warn(self, fields: Fields, where: str) -> tuple[str, int]:
        from signal import Signals

        text = self._entry_text(fields, where, "warn")
        if not text:
            return "", 0
        node = fields["warn"][1]
        match = _WARN.fullmatch(text)
        if match is None or f"SIG{match[1].upper()}" not in Signals.__members__:
            self.bad(node, f"{where}.warn", f"{where}.warn: {text!r} will not do.", "Write SIGNAL@TIME, as USR1@5m.")
            return "", 0
        return match[1].upper(), self.duration(node, f"{where}.warn", match[2], 1) or 0


def _said(node: Node) -> str:
    if node.id == "scalar":
        return f"{str(node.value)[:40]!r}"
    return "a list" if node.id == "sequence" else "keys and values"


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _nearest(name: str, allowed: Iterable[str]) -> str | None:
    import difflib

    found = difflib.get_close_matches(name.lower().replace("_", "-"), tuple(allowed), n=1, cutoff=0.6)
    return found[0] if found else None


def to_json(settings: Settings) -> dict[str, Any]:
    """`settings` for a cache, so that an unchanged file need not be parsed again."""
    from cronhpc import __version__

    values = {name: getattr(settings, name) for name in Settings.__slots__}
    values["entries"] = [[getattr(row, name) for name in EntryRow.__slots__] for row in settings.entries]
    values["switches"] = [[getattr(row, name) for name in SwitchSetting.__slots__] for row in settings.switches]
    return {"cronhpc": __version__, "settings": values}


def from_json(cached: Mapping[str, Any]) -> Settings:
    """What `to_json` wrote. Raises ValueError where another version of cronhpc wrote it: parse the file then."""
    from cronhpc import __version__

    if cached.get("cronhpc") != __version__:
        raise ValueError("cached settings of another version")
    try:
        values = {name: _frozen(value) for name, value in cached["settings"].items()}
        values["entries"] = tuple(EntryRow(*row) for row in values["entries"])
        values["switches"] = tuple(SwitchSetting(*row) for row in values["switches"])
        return Settings(**values)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"cached settings are damaged: {error}") from None


def _frozen(value: Any) -> Any:
    return tuple(_frozen(each) for each in value) if isinstance(value, list) else value
