"""What docs/reference.md and docs/cronhpc.1 say: read off the parsers and the typed tables, so it cannot lag behind."""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING

from cronhpc import __version__
from cronhpc.cli.commands import GROUPS, parsers
from cronhpc.core import policy
from cronhpc.store import schema
from cronhpc.store.settings_reader import KINDS
from docs.generate.codes import OF_FILES, OF_SCRIPTS
from docs.generate.pages import Lines, Prose, Rows, Section, render

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


SUMMARY = "cron for clusters, without admin rights"
_DESCRIPTION = (
    "Drop a batch script into a folder of the cron directory (`~/cron`), and it runs on time. A tiny scheduler job "
    "does the work and keeps itself in the queue: `cronhpc init` makes the folder, `cronhpc start` the job; `cronhpc "
    "status` shows all on one screen, `cronhpc stop` ends it. A NAME below is an entry: its script's name without "
    "`.slurm`."
)
_COMMON = ("--help", "--dir", "--backend", "--json", "--version")

RUN_VARIABLES = {
    "CRONHPC_ENTRY": "the entry's name",
    "CRONHPC_SLOT": "the slot that this run is for, in UTC: 2026-11-28T04:00:00Z; not the time of its start",
    "CRONHPC_ATTEMPT": "1, or 2 and more for a retry",
    "CRONHPC_PREVIOUS_SUCCESS": "the slot of the last run that ended well, as CRONHPC_SLOT; empty where there is none",
    "CRONHPC_DIR": "the cron directory",
}
READ_VARIABLES = {
    "CRONHPC_DIR": "the cron directory, where `--dir` does not name one",
    "WORK": "without CRONHPC_DIR the cron directory is `$WORK/cron`; a WORK that is no folder is an error",
    "TZ": "the zone in which times are shown to you; schedules do not follow it",
    "NO_COLOR": "no colour, as a terminal whose TERM is dumb",
    "SBATCH_ACCOUNT, SBATCH_PARTITION …": "`init` and `start` write them into `sbatch:`; runs do not get them",
    "SLURM_CONF, SLURM_JWT": "which cluster, and who you are there; kept for commands and runs",
    "XDG_STATE_HOME": "where `again` keeps its records when there is no cron directory (else `~/.local/state`)",
}
JOBS_VARIABLES = {
    "CRONHPC_JOBS_LIB": "ready-made jobs find their shared lines there, where they are run from a checkout",
    "CRONHPC_PYTHON": "`deploy/install`, `deploy/demo` and `deploy/test` use this Python",
    "CRONHPC_ENV": "`deploy/test` makes its environment there",
}
ALERT_VARIABLES = {
    "CRONHPC_KIND, CRONHPC_PHASE": "what is told of, and whether it is new; see docs/alerts.md",
    "CRONHPC_TEXT": "it in one sentence",
    "CRONHPC_ENTRY, CRONHPC_JOB, CRONHPC_LOG": "which run failed, and its log's path; empty where none did",
    "CRONHPC_SINCE": "since when: 2026-11-28T04:00:00Z",
    "CRONHPC_DIR, CRONHPC_OWNER, CRONHPC_HOST": "the cron directory, whose it is, and the machine that tells",
}
EXIT_CODES = {
    "0": "fine",
    "1": "something needs attention, or the batch system did not answer: what was printed says which",
    "2": "usage, or broken: no cron directory, settings that cannot be used, a disk that refuses",
    "130": "ended by Ctrl-C",
    "113": "`again` and `guard` only: the work has ended, by a switch or (`again`) by a rule of its own",
    "the command's": "`guard`: as the command ended; 126 not executable, 127 not found, 128 + n by signal n",
    "0, 1, 2, 3": "`status --nagios`: OK, warning, critical, unknown",
}
FILES = {
    "cronhpc.yaml": "settings; without this file no folder is taken for a cron directory",
    "cron.hourly/ cron.daily/ cron.weekly/ cron.monthly/": "batch scripts, `*.slurm`, or links to some",
    "cron.d/": "batch scripts that carry their own schedule in a `#CRON` line",
    "kill/ pause/": "switches: a file there stops, or holds, what it is named after",
    "log/ENTRY/": "what runs print",
    "trash/": "scripts of entries that `cronhpc rm` removed; nothing deletes them",
    "status.json": "heartbeat and health, readable by all who may enter",
    "scheduler/": "the scheduler's batch script and its log; an empty file `stop` there ends the chain",
    "state/": "claims, history, the lease: cronhpc's own, and nobody else's to read",
}


def text(fmt: str) -> str:
    """The reference in one of pages.FORMATS; it ends in a newline."""
    return render(_sections(), fmt, summary=SUMMARY, version=__version__)


def _sections() -> list[Section]:
    common = Rows(("option", "meaning"), [*_options(parsers()["status"], common=True)])
    intro = Prose("Each command has `--help`, with an example. These options go with all of them:")
    parts = [part for name, parser in parsers().items() for part in _command(name, parser)]
    return [
        Section("Description", [Prose(_DESCRIPTION)]),
        Section("Commands", [intro, common, *_without_command()], parts),
        Section("Exit codes", [Rows(("code", "meaning"), _rows(EXIT_CODES, literal=False))]),
        Section("Schedules and policies", [*_schedules()]),
        Section("Settings", [*_settings()], [*_rows_of_settings()]),
        Section("Variables", [], [*_variables()]),
        Section("Files", [Prose("In the cron directory:"), Rows(("there", "what it is"), _rows(FILES))]),
        Section("Codes", [*_codes()], [*_code_tables()]),
    ]


def _rows(table: Mapping[str, str], *, literal: bool = True) -> list[tuple[str, str]]:
    return [(f"`{name}`" if literal else name, what) for name, what in table.items()]


# --- commands ------------------------------------------------------------------------------------------------------


def _without_command() -> Iterator[Prose | Rows]:
    yield Prose("Without a command:")
    rows = {
        "cronhpc --help": "the commands, in groups",
        "cronhpc --completion bash": "a function that completes commands, options and names, for ~/.bashrc; or `zsh`",
        "cronhpc --reference man": "this text as a page of the manual; or `markdown`",
    }
    yield Rows(("call", "prints"), _rows(rows))
    groups = [(title, ", ".join(f"`{name}`" for name in group)) for title, group in GROUPS.items()]
    yield Rows(("to", "commands"), groups)


def _command(name: str, parser: argparse.ArgumentParser) -> Iterator[Section]:
    blocks: list[Prose | Lines | Rows] = [Lines(_usage(parser)), Prose(" ".join((parser.description or "").split()))]
    rows = [*_options(parser, common=False)]
    if rows:
        blocks.append(Rows(("option", "meaning"), rows))
    example = textwrap.dedent((parser.epilog or "").partition("example:\n")[2])
    blocks.append(Lines("\n".join(f"$ {line}" for line in example.splitlines())))
    yield Section(f"cronhpc {name}", blocks)


def _usage(parser: argparse.ArgumentParser) -> str:
    if parser.usage:
        return parser.usage.replace("…", "...")
    places = [_place(each) for each in parser._get_positional_actions()]  # noqa: SLF001 - argparse has no other way
    return " ".join([parser.prog, "[options]", *places])


def _place(action: argparse.Action) -> str:
    word = str(action.metavar or "|".join(action.choices or ()))
    return {"?": f"[{word}]", "*": f"[{word} ...]"}.get(str(action.nargs), word)


def _options(parser: argparse.ArgumentParser, *, common: bool) -> Iterator[tuple[str, str]]:
    """(what is typed, what it means), as --help has it."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way
        is_common = bool(set(_COMMON) & set(action.option_strings))
        if is_common is not common:
            continue
        words = ", ".join(action.option_strings) or _place(action)
        value = "" if action.nargs == 0 or not action.option_strings else _value(action)
        yield (
            f"`{words}{value}`",
            (action.help or "").replace("show this help message and exit", "help, with an example"),
        )


def _value(action: argparse.Action) -> str:
    return f" {action.metavar or '|'.join(action.choices or ()) or action.dest.upper()}"


# --- what is written in files --------------------------------------------------------------------------------------


def _schedules() -> Iterator[Prose | Lines | Rows]:
    yield Prose(
        "A script in cron.d/ carries its schedule beside its `#SBATCH` lines; one in cron.daily/ and the like may, and "
        "it wins over the folder. It is five fields as in cron (minute, hour, day of month, month, day of week; names, "
        "lists, ranges, steps; `H`, `H(0-7)`, `H/15`: a fixed value chosen by the entry's name), or `@hourly`, "
        "`@daily`, `@weekly`, `@monthly`, `@yearly`, or `@every DURATION`. Policies follow. They may also stand under "
        "`defaults:` and in a row of `entries:`, without their dashes."
    )
    yield Lines("#CRON */30 8-18 * * mon-fri --timezone=Europe/Paris --overlap=skip --retries=2", "bash")
    rows = [(f"`--{name}`", values, plain, what) for name, (_, values, plain, what) in policy.POLICIES.items()]
    yield Rows(("policy", "values", "default", "meaning"), rows)
    yield Prose("A duration is `90s`, `10m`, `1h30m`, `7d`.")


def _settings() -> Iterator[Prose | Rows]:
    yield Prose(
        "`cronhpc.yaml`, in the cron directory. Every key is optional and typed: an unknown one is an error that names "
        "file, line, key and the nearest right one. A key with a dot is nested: `logs.keep` is `logs: {keep: 7d}`."
    )
    rows = [
        (f"`{key}`", kind, _literal(plain), _literal(schema.example(row), known=plain), what)
        for row, (key, kind, plain, what) in zip(schema.TABLE, describe(), strict=True)
    ]
    yield Rows(("key", "kind", "default", "example", "meaning"), rows)


def describe() -> list[tuple[str, str, str, str]]:
    """(key, type, default, doc) of every setting, for the docs."""
    return [
        (
            row.key,
            f"{KINDS[row.kind].words} {', '.join(row.choices)}".strip(),
            "-" if row.default in ("", (), None) else schema.example(row),
            row.doc,
        )
        for row in schema.TABLE
    ]


def _literal(text: str, *, known: str = "-") -> str:
    """As code; "-" for what is none, or stands beside it already."""
    return "-" if text == known else f"`{text}`"


def _rows_of_settings() -> Iterator[Section]:
    head = ("key", "meaning")
    policies = "Any policy, without its dashes."
    yield Section("A row of entries", [Rows(head, [*_rows(schema.ENTRY_ABOUT), ("a policy's name", policies)])])
    yield Section("A row of kill.switches", [Rows(head, _rows(schema.SWITCH_ABOUT))])


def _variables() -> Iterator[Section]:
    head = ("variable", "meaning")
    got = Prose("Beside those of the environment in which `cronhpc start` was called (see `environment` above):")
    yield Section("What runs get", [got, Rows(head, _rows(RUN_VARIABLES))])
    yield Section("What alerts.command gets", [Rows(head, _rows(ALERT_VARIABLES))])
    yield Section("What cronhpc reads", [Rows(head, _rows(READ_VARIABLES))])
    yield Section("What its scripts read", [Rows(head, _rows(JOBS_VARIABLES))])


def _codes() -> Iterator[Prose | Lines]:
    yield Prose(
        "Each complaint names its file and line, a code, what is wrong, and the fix. E is an error, W a "
        "warning, N a note that needs nobody. E1 and W1 are of the schedule. E2 is what sbatch refuses on "
        "every cluster: for whoever would else find out in the morning. W2 is what sbatch reads otherwise "
        "than it looks, or not at all. W3 is what goes well by hand, and wrong in a run: that starts in the "
        "home folder, without a login shell, again and again. A comment silences one of a script's: on its "
        "line, on a comment line just above, or at the top for the whole script."
    )
    yield Lines("# cronhpc: ignore=W221,W303", "bash")


def _code_tables() -> Iterator[Section]:
    for title, table in (("Of scripts", OF_SCRIPTS), ("Of the cron directory", OF_FILES)):
        rows = [(f"`{code}`", what, fix) for code, (what, fix) in table.items()]
        yield Section(title, [Rows(("code", "what is wrong", "fix"), rows)])
