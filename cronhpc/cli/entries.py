"""`cronhpc list`, `show NAME`, `edit NAME` and `rm NAME …`: entries as the files that they are."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.cli import ATTENTION, BROKEN, FINE
from cronhpc.cli.commands import Command, parse
from cronhpc.cli.console import Console, UsageError, entry_argument
from cronhpc.cli.runs import entry_meant, entry_named
from cronhpc.core import slots, stop
from cronhpc.core.identity import Lives
from cronhpc.core.model import CronhpcError, Entry, EntryState, SwitchKind, World, command, entry_id, joined, slot_text
from cronhpc.core.model.decode import iso
from cronhpc.core.policy import POLICIES
from cronhpc.cron.values import dataclass, replace
from cronhpc.script.spelling import own_output
from cronhpc.store.claims import Claims
from cronhpc.store.entries import FRESH, SUFFIX, file_of, read_script, row_of
from cronhpc.store.files import Paths, replace_file
from cronhpc.store.scheduler import started
from cronhpc.views import Facts, text
from cronhpc.views.next import lowered
from cronhpc.views.style import Cell, Column, Style, table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from cronhpc.core.model import EntryRow
    from cronhpc.cron.schedule import Schedule
    from cronhpc.engine.site import Site
    from cronhpc.script.header import Header


_LIST = command("list")


def _opened(args: argparse.Namespace, console: Console, deed: str) -> tuple[Site, World, Entry]:
    """The owner's directory, what is known of it without its queue, and the entry that was named."""
    site = console.own_site(deed)
    world = console.offline_world(site)
    return site, world, entry_named(entry_meant(args.name, console, site.paths), world.entries, site.paths, _LIST)


def _schedule(entry: Entry) -> Schedule | None:
    return slots.schedule_of(entry) if entry.schedule else None


def _in_words(entry: Entry) -> str:
    schedule = _schedule(entry)
    return schedule.in_words() if schedule else ""


_ON = "on"


def _state(world: World, entry: Entry) -> str:
    """`on`, or why it does not run by itself."""
    if entry.problem is not None:
        return f"not run: {entry.problem.code}"
    if (switch := stop.switch_on(world, entry)) is not None:
        return f"{'killed' if switch.kind is SwitchKind.KILL else 'paused'} by {switch.by}"
    if world.states.get(entry.name, EntryState()).suspended:
        return "suspended"
    return next((f"fails: {note.code}" for note in entry.notes if note.code == "E230"), _ON)


# --- list -------------------------------------------------------------------------------------------------------------


_LIST_HELP = (
    "The entries, one a line: name, schedule, whether it is on. How each is, and what ran, says cronhpc status."
)
_LIST_EXAMPLE = "cronhpc list"


def _list(_: argparse.Namespace, console: Console) -> int:
    site = console.own_site("lists its entries")
    world = console.with_unreadable(console.offline_world(site), site.environment)
    rows = [(entry, _state(world, entry)) for entry in world.entries]
    if console.as_json:
        keys = ("name", "schedule", "words", "timezone", "state", "file")
        lines = ((e.name, e.schedule, _in_words(e), e.timezone, state, e.source) for e, state in rows)
        console.json({"entries": [dict(zip(keys, row, strict=True)) for row in lines]})
    else:
        console.say(_table(rows, console.style()))
    return FINE


def _table(rows: Sequence[tuple[Entry, str]], style: Style) -> str:
    """A line an entry, with its state."""
    if not rows:
        return "there are no entries yet. Drop a script into " + style.path("cron.daily/") + ", or: " + command("add")
    columns = [Column("NAME", name=True, least=12), Column("SCHEDULE"), Column("STATE"), Column("FILE", optional=1)]
    cells: list[list[Cell]] = [
        [
            text.name(entry.name),
            text.one_line(entry.schedule) or "-",
            (text.one_line(state), "" if state == _ON else "yellow"),
            text.name(entry.source),
        ]
        for entry, state in rows
    ]
    return "\n".join(table(columns, cells, style))


# --- show -------------------------------------------------------------------------------------------------------------


_SHOW_HELP = (
    "An entry as it will run: its schedule in words, each policy and option with where it comes from (a line of "
    "the script, a key of cronhpc.yaml, the default), where its log lies, and the head of its script."
)
_SHOW_EXAMPLE = "cronhpc show backup"
_HEAD = 30  # lines
_LABEL = 7  # columns


def _show(args: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if it is not run as it is."""
    site, world, entry = _opened(args, console, "sees its scripts")
    (entry,) = console.with_unreadable(replace(world, entries=(entry,)), site.environment).entries
    effective = _effective(site, world, entry)
    console.answer(effective.facts, lambda: "\n".join(effective.screen(console.style(site.settings.timezone))))
    return ATTENTION if entry.problem else FINE


def _effective(site: Site, world: World, entry: Entry) -> _Effective:
    from cronhpc.script.header import read_header

    data = read_script(entry.script) if entry.script else entry.command.encode("utf-8", "surrogateescape")
    row = next((each for each in site.settings.entries if each.name == entry.name), None)
    header, schedule = read_header(data, entry.name, site.batch.dialect), _schedule(entry)
    at = schedule.next_epoch(world.now) if schedule else None
    return _Effective(site, entry, header, row, _state(world, entry), _in_words(entry), at, _head(data))


def _head(data: bytes) -> str:
    """The lines before the first command."""
    lines: list[str] = []
    for line in data.decode("utf-8", "replace").splitlines():
        if (line.strip() and not line.startswith("#")) or len(lines) == _HEAD:
            break
        lines.append(line)
    return "\n".join(lines).rstrip()


Given = tuple[str, str | None, str]  # a policy or an option
_GIVEN = ("name", "value", "from")


def _line(line: int) -> str:
    return f"line {line} of its script"


@dataclass(frozen=True, slots=True)
class _Effective:
    """All that holds for one entry, and where it stands."""

    site: Site
    entry: Entry
    header: Header
    row: EntryRow | None  # of cronhpc.yaml, where it is one
    state: str
    words: str  # its schedule
    next: int | None
    head: str  # of its script

    @property
    def origin(self) -> str:
        """Of its schedule."""
        cron = self.header.cron
        if self.row is not None:
            return f"cronhpc.yaml:{self.row.line}"
        if cron is not None and cron.schedule:
            return _line(cron.line)
        folder = self.entry.source.partition("/")[0].removeprefix("cron.")
        return f"folders.{folder} of cronhpc.yaml"

    @property
    def given(self) -> dict[str, list[Given]]:
        return {"policies": list(self._policies()), "options": list(self._options())}

    def _policies(self) -> Iterator[Given]:
        """Each policy; of what is said twice the nearer one holds."""
        given = {name: (value, "defaults of cronhpc.yaml") for name, value, _ in self.site.settings.defaults}
        if self.row is not None:
            given |= {name: (value, f"cronhpc.yaml:{line}") for name, value, line in self.row.policies}
        elif self.header.cron is not None:
            given |= {name: (value, _line(line)) for name, value, line in self.header.cron.policies}
        for name, policy in POLICIES.items():
            value, origin = given.get(name, (policy.default, "default"))
            yield name, "true" if value is None else value, origin

    def _options(self) -> Iterator[Given]:
        """What sbatch gets: the script's own lines, then what cronhpc adds."""
        for directive in self.header.options if self.entry.script else ():
            yield directive.name, directive.value, _line(directive.line)
        row = self.row
        for option in self.entry.options:
            name, _, value = option.removeprefix("--").partition("=")
            of_row = row and name in dict(row.sbatch)
            yield name, value or None, self.origin if of_row else "sbatch of cronhpc.yaml"

    @property
    def log(self) -> str | None:
        return f"log/{entry_id(self.entry.name)}/SLOT-JOB.out" if self.entry.output else None

    @property
    def facts(self) -> Facts:
        from cronhpc.views.attention import problem_facts

        entry = self.entry
        return {
            "name": entry.name,
            "file": entry.source,
            "script": entry.script or None,
            "state": self.state,
            "problem": problem_facts(entry.problem) if entry.problem else None,
            "schedule": {
                "text": entry.schedule,
                "words": self.words,
                "timezone": entry.timezone,
                "next": iso(self.next),
                "from": self.origin,
            },
            **{title: [dict(zip(_GIVEN, each, strict=True)) for each in rows] for title, rows in self.given.items()},
            "log": self.log,
            "head": self.head,
        }

    def screen(self, style: Style) -> Iterator[str]:
        entry, words = self.entry, lowered(self.words)
        when = f"{words} ({text.one_line(entry.schedule)}), {entry.timezone}" if words else "-"
        rows = {
            "file": text.clean(style.path(entry.script) if entry.script else entry.source),
            "runs": f"{when}; {self.origin}",
            "next": f"{style.whole(self.next)} ({style.distance(self.next)})" if self.next else "-",
            "state": text.one_line(self.state),
            "log": text.clean(self.log or f"where its script says ({own_output(self.site.batch.dialect)})"),
        }
        columns = [Column(""), Column("", least=20), Column("")]
        yield text.name(entry.name)
        for title, value in rows.items():
            first, *more = style.wrapped(value, style.width - _LABEL if style.width else 0)
            yield f"{title:<{_LABEL}}{first}"
            yield from (f"{'':<{_LABEL}}{line}" for line in more)
        if entry.problem:
            yield style.text(joined(" ", ("it is not run as it is:", entry.problem.what, entry.problem.fix)))
        for title, given in self.given.items():
            if given:
                yield f"\n{title}"
                cells = [[f"  {name}", text.one_line(value or "-"), origin] for name, value, origin in given]
                yield from table(columns, cells, style)
        if self.head:
            yield "\nscript"
            yield from (f"  {text.lines(line)}" for line in self.head.splitlines())


# --- edit -------------------------------------------------------------------------------------------------------------


_EDIT_HELP = (
    "Open an entry's script in $VISUAL, $EDITOR, or vi or nano; then check it, and say when it runs next. What you "
    "save takes the script's place in one step, with its mode; of a row of cronhpc.yaml that file is opened."
)
_EDIT_EXAMPLE = "cronhpc edit backup"
_TO_A_LINE = frozenset({"vi", "vim", "nvim", "view", "nano", "emacs", "emacsclient", "joe", "micro", "kak"})


def _edit(args: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if the check found something to fix."""
    site, _, entry = _opened(args, console, "edits its scripts")
    name, paths = entry.name, site.paths
    path = Path(os.path.realpath(entry.script or paths.settings))
    line = 0 if entry.script else row_of(entry)
    code, changed = FINE, False
    while _edited(path, line, paths.state / "edit", console):
        changed = True
        if console.as_json:
            break
        code = _checked(console, name)
        if code == FINE or console.ask("edit again? [Y/n] ") not in {"", "y", "yes"}:
            break
    return _after_edit(console, name, code, changed=changed)


def _edited(path: Path, line: int, folder: Path, console: Console) -> bool:
    """Let the user edit a copy, which then takes the place of `path`; whether it is another text."""
    data, mode = read_script(str(path)), path.stat().st_mode & 0o7777
    folder.mkdir(mode=0o700, exist_ok=True)
    copy = folder / path.name
    replace_file(copy, data, 0o600)
    console.out.flush()
    failed = _editor(copy, line, console, path)
    text = read_script(str(copy))
    if text != data and not failed:
        failed = _put(text, path, data, mode)
    if text == data or not failed:
        copy.unlink(missing_ok=True)
    if failed:
        yours = f" Your text: {shlex.quote(str(copy))}" if text != data else ""
        raise CronhpcError(f"{failed} Nothing was changed.{yours}")
    return text != data


def _put(text: bytes, path: Path, before: bytes, mode: int) -> str:
    """Replace the script that was edited; why not, in words, or ""."""
    if read_script(str(path)) != before:
        return f"{path} was changed by somebody else meanwhile."
    try:
        replace_file(path, text, mode)
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}."
    return ""


def _editor(path: Path, line: int, console: Console, script: Path) -> str:
    """Run it; why it failed, in words, or "". One that draws on a terminal would wait for keys where there is none."""
    from cronhpc.batch.process import Missing, attended, which

    environ = console.environ
    chosen = environ.get("VISUAL") or environ.get("EDITOR") or ""
    words = shlex.split(chosen) or [each for each in ("vi", "nano") if which(each, environ)][:1]
    if not words:
        return "There is neither vi nor nano here: export EDITOR=PROGRAM."
    if not console.is_terminal and Path(words[0]).name in _TO_A_LINE:
        return f"There is no terminal for {words[0]}: change {shlex.quote(str(script))} itself."
    place = [f"+{line}"] if line and Path(words[0]).name in _TO_A_LINE else []
    try:
        code = attended([*words, *place, str(path)], env=environ)
    except Missing as error:
        return f"{error}: correct $VISUAL or $EDITOR."
    return f"The editor ended with code {code}." if code else ""


def _checked(console: Console, name: str) -> int:
    """What `cronhpc check NAME` says of it, and its exit code."""
    parsed, run = parse(["check", "--", name], console)
    return run(parsed, console.again())


def _after_edit(console: Console, name: str, code: int, *, changed: bool) -> int:
    site = console.site()
    if changed:
        if _waits_ahead(site.paths, name, console.now):  # on the old times, and a tick leaves so young a file alone
            console.wait(FRESH + 1)
            console = console.again()
        site = console.site_now()
    world = console.offline_world(site)
    entry = next((each for each in world.entries if each.name == name), None)
    schedule = _schedule(entry) if entry is not None else None
    at = schedule.next_epoch(console.now) if schedule else None
    state = _state(world, entry) if entry is not None else "gone"
    facts = {"entry": name, "changed": changed, "state": state, "next": iso(at)}
    style = console.style(site.settings.timezone)

    def words() -> str:
        head = f"{text.name(name)} {'is changed' if changed else 'stays as it was'}"
        if entry is None:
            return head + ", and is no entry any more. See: " + _LIST
        if at is None or entry.problem is not None:
            return head + ", and is not run as it is. See: " + command("check", name)
        runs = f"{head}; it runs next {style.whole(at)} ({style.distance(at)})"
        if state != _ON:
            return f"{runs}, but for now it is {state}"
        return runs if started(site.paths) else runs + ", once the scheduler is started: " + command("start")

    console.answer(facts, words)
    if console.as_json and entry is not None and entry.problem is not None:
        return ATTENTION
    return code if entry is not None else BROKEN


def _waits_ahead(paths: Paths, name: str, now: int) -> bool:
    """Whether a run of the entry was queued ahead of its slot."""
    return any(key.slot > now and key.entry == entry_id(name) for key in Claims(paths.claims).names())


# --- rm ---------------------------------------------------------------------------------------------------------------


_RM_HELP = (
    "Remove entries. Their scripts are moved to trash/ in the cron directory, from where you can bring them back; what "
    "runs of them goes on, and what waits in the queue is cancelled. Logs and history stay."
)
_RM_EXAMPLE = """
cronhpc rm backup
cronhpc rm old-sweep older-sweep --yes
"""


def _rm_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME", help="entries")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _rm(args: argparse.Namespace, console: Console) -> int:
    """Exit code 1 if the answer was no, or a job could not be cancelled."""
    site = console.own_site("removes its entries")
    world = console.offline_world(site)
    entries = [entry_named(name, world.entries, site.paths, _LIST) for name in dict.fromkeys(args.names)]
    rows = [entry for entry in entries if row_of(entry)]
    if rows:
        where = f"{rows[0].name} is a row of cronhpc.yaml (line {row_of(rows[0])})."
        raise CronhpcError(f"{where} Nothing was removed. Take the row out: " + command("edit", rows[0].name))
    if not args.yes:
        question = f"remove {text.listed([text.name(entry.name) for entry in entries])}? [y/N] "
        answer = console.ask(question)
        if answer is None:
            meant = command("rm", *(entry.name for entry in entries), options=("--yes",))
            raise UsageError("cronhpc rm: nobody is there to be asked. If it is meant: " + meant)
        if answer not in {"y", "yes"}:
            console.say("nothing was removed")
            return ATTENTION
    moved = {entry.name: _to_trash(site.paths.root, file_of(entry), console.now) for entry in entries}
    removed, trouble = _cancelled(console, site, moved)
    console.answer({"removed": removed, "trouble": trouble}, lambda: joined("\n", _removed(removed, moved, trouble)))
    return ATTENTION if trouble else FINE


def _to_trash(root: Path, source: str, now: int) -> tuple[Path, Path]:
    """From where to where the script was moved; nothing in trash/ is replaced."""
    script, folder = root / source, root / "trash"
    folder.mkdir(mode=0o755, exist_ok=True)
    names = (f"{script.stem}.{slot_text(now)}{more}{SUFFIX}" for more in ("", *(f".{n}" for n in range(2, 1000))))
    to = next(folder / name for name in names if not os.path.lexists(folder / name))
    shutil.move(script, to)
    return script, to


Moved = Mapping[str, tuple[Path, Path]]  # by entry: from where to where its script was moved


@dataclass(frozen=True, slots=True)
class Removed:
    """An entry that was removed: where its script lies now, and its jobs, those that are cancelled and that go on."""

    name: str
    kept: str
    cancelled: tuple[str, ...]
    running: tuple[str, ...]


def _cancelled(console: Console, site: Site, moved: Moved) -> tuple[list[Removed], str]:
    """The entries with their jobs, of which the waiting ones are cancelled; and what the batch system would not do."""
    from cronhpc.engine.read import read_world

    world = read_world(site, console.now).world
    lives, removed = Lives.of(world), []
    for name, (_, to) in moved.items():
        jobs = [claim.job_id for claim in lives.of_entry(entry_id(name)) if claim.job_id]
        waiting = [job for job in jobs if _waits(world, job)]
        removed.append(Removed(name, str(to), tuple(waiting), tuple(job for job in jobs if job not in waiting)))
    if world.queue is None:
        return removed, f"{world.queue_error}: what waits of it is not cancelled"
    if jobs := [job for row in removed for job in row.cancelled]:
        console.withdraw_edited(site)  # those whose slot has not come: nothing has happened
        try:
            site.batch.cancel(jobs, pending_only=True)
        except CronhpcError as error:
            return removed, str(error)
    return removed, ""


def _waits(world: World, job_id: str) -> bool:
    """Whether no part of the job has begun."""
    return all(job.pending for job in world.jobs().get(job_id, ())) and job_id in world.jobs()


def _removed(removed: Sequence[Removed], moved: Moved, trouble: str) -> Iterator[str]:
    for row in removed:
        script, to = moved[row.name]
        yield f"removed {text.name(row.name)}; undo: mv -n {text.word(str(to))} {text.word(str(script))}"
        if row.running:
            yield f"  {text.jobs_of_it(row.running, 'runs, and goes', 'run, and go')} on"
        if row.cancelled:
            waits = ("waits, and is NOT", "wait, and are NOT") if trouble else ("waited, and is", "waited, and are")
            yield f"  {text.jobs_of_it(row.cancelled, *waits)} cancelled"
    if trouble:
        yield trouble


COMMANDS = {
    "list": Command(_LIST_HELP, _LIST_EXAMPLE, _list),
    "show": Command(_SHOW_HELP, _SHOW_EXAMPLE, _show, entry_argument),
    "edit": Command(_EDIT_HELP, _EDIT_EXAMPLE, _edit, entry_argument),
    "rm": Command(_RM_HELP, _RM_EXAMPLE, _rm, _rm_arguments),
}
