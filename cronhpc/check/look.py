"""What lint has to know of this place: how a script's own interpreter reads it, and what the cluster thinks of it."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import cached_property, lru_cache, partial
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from cronhpc.batch.port import Examinable, Submission, Unreachable
from cronhpc.batch.process import Missing, elapsed, run, run_many, which
from cronhpc.check.lint import lint_script, unreadable, without_ignored
from cronhpc.check.lint_directives import Facts, Unreadable
from cronhpc.core.model import Entry, Problem, Severity, World, command
from cronhpc.cron.values import count, replace
from cronhpc.script.advice import word
from cronhpc.script.dialect import SLURM, Dialect
from cronhpc.script.shell_text import Interpreter, interpreter
from cronhpc.store.entries import file_of, read_script, row_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cronhpc.core.model.site import Partition


_ASKS_FOR_ROOM = re.compile(rb"^#(?:SBATCH|PBS)\b.*\s-(?:p|-pa|q|t|-ti|N|-nod|-mem|c|-cp|-q)", re.MULTILINE)


class Script(NamedTuple):
    """What is linted. `name`: as its user knows it; the others as `lint_script` has them."""

    name: str
    path: str
    data: bytes
    schedule: str | None
    entry: Entry | None = None
    hash_key: str = ""
    scheduled: bool = True


class Linter(NamedTuple):
    """Lint, with what of this place it needs: the environment of runs, where it is known, and whom to ask."""

    environ: Mapping[str, str] | None
    partitions: Partitions | None = None
    online: Online | None = None
    dialect: Dialect = SLURM
    read_well: frozenset[bytes] = frozenset()  # scripts whose syntax is known to be right

    def __call__(self, script: Script, *, refused: tuple[str, ...] = ()) -> tuple[Problem, ...]:
        """What lint says; `refused`: what sbatch says."""
        partitions = self.partitions.by_name if self.partitions and _ASKS_FOR_ROOM.search(script.data) else None
        missing = "" if self.environ is None else _missing(script.data, self.environ)
        complaint = None
        if not missing and script.data not in self.read_well:
            complaint = unreadable_by(script.data, self.environ or {})
        is_function = partial(_is_function, self.environ or {})
        path, added = word(script.path or "FILE"), added_options(script.entry)
        facts = Facts(partitions, os.path.isdir, refused, is_function, complaint, missing, added, path)
        return lint_script(
            script.name,
            script.data,
            facts=facts,
            folder_schedule=script.schedule,
            hash_key=script.hash_key,
            scheduled=script.scheduled,
            dialect=self.dialect,
        )

    def with_cluster(self, script: Script) -> tuple[Problem, ...]:
        """Where nothing else is wrong with a script, sbatch has its say."""
        problems = self(script)
        unreachable = self.partitions is not None and self.partitions.problems  # then it is waited for on demand only
        if self.online is None or (unreachable and self.online.is_brief):
            return problems
        if all(each.severity is not Severity.ERROR for each in problems):
            problems = self(script, refused=self.online.refusal(script.path, script.entry))
        return problems


def added_options(entry: Entry | None) -> dict[str, str]:
    """The options that the settings give an entry's job."""
    pairs = (each[2:].partition("=") for each in (entry.options if entry else ()))
    return {name: value for name, _, value in pairs}


def _is_function(environ: Mapping[str, str], name: str) -> bool:
    """Whether bash finds a function of that name in an environment."""
    return f"BASH_FUNC_{name}%%" in environ or f"BASH_FUNC_{name}()" in environ


# --- how its interpreter reads a script -------------------------------------------------------------------------------

_ASKED_SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh"})
_SHELL_COMPLAINT = re.compile(r":(?: line)? (\d+): (.*)")
_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?")
_READS = """import sys
try:
    compile(sys.stdin.buffer.read(), "-", "exec", 1024, True)  # 1024: as a tree, nothing runs
except (SyntaxError, ValueError) as error:
    print("-: %d: %s" % (getattr(error, "lineno", 0) or 1, getattr(error, "msg", error)), file=sys.stderr)
    sys.exit(1)
"""
_TIMEOUT = 10.0  # seconds, for a shell that only reads
_MANY = 256  # scripts that are read by one bash
# What -n does, from the second line of each text on: nothing of it runs. `local -` takes it back as the function ends,
# where `bash -n` is a start for each text. A bash before 4.4 has neither that nor -d, and says nothing. What one
# complains of may change how it reads on, so that it ends there.
_READS_MANY = """read_only() { local -; eval "set -n
$1
"; }
mapfile -d '' texts 2>/dev/null || exit
exec </dev/null 2>&1
for text in "${texts[@]}"; do read_only "$text" || exit; printf '.\\0'; done"""


def _interpreter(data: bytes) -> Interpreter:
    return interpreter(data.partition(b"\n")[0].decode("utf-8", "replace"))


def _missing(data: bytes, environ: Mapping[str, str]) -> str:
    """The interpreter that this machine does not have; "" where it has it, or the first line names none."""
    by = _interpreter(data)
    named = by.path or by.name
    elsewhere = by.path and not by.path.startswith("/")
    return "" if not named or elsewhere or _is_here(named, environ.get("PATH")) else named


@lru_cache(maxsize=64)  # scripts share their interpreters
def _is_here(program: str, path: str | None) -> bool:
    return which(program, {} if path is None else {"PATH": path}) is not None


def unreadable_by(data: bytes, environ: Mapping[str, str]) -> Unreadable | None:
    """What `bash -n`, or Python's own parser, says of a script; None where it can be read, or nobody knows."""
    by = _interpreter(data)
    if b"\0" in data or b"\r\n" in data:
        return None
    if by.name in _ASKED_SHELLS:
        argv, environ, reader = [by.name, "-n"], {}, (f"{by.name} -n", "its shell")
    elif _PYTHON.fullmatch(by.name):
        argv, reader = [by.path or by.name, "-I", "-c", _READS], (f"{by.name} -m py_compile", "Python")
    else:
        return None
    try:
        text = data.decode("utf-8", "surrogateescape")
        ended = run(argv, timeout=_TIMEOUT, env={**environ, "LC_ALL": "C"}, input=text, cwd="/")
    except Missing:
        return None
    complaint = _SHELL_COMPLAINT.search(ended.err) if ended.code else None
    last = data.rstrip().count(b"\n") + 1
    return Unreadable(min(int(complaint[1]), last), complaint[2].strip(), *reader) if complaint else None


def read_well(scripts: Iterable[bytes]) -> frozenset[bytes]:
    """Those of many bash scripts that bash can read; what `bash -n` says of any other is asked of that one alone."""

    def read(batch: Sequence[bytes]) -> list[bytes]:
        well: list[bytes] = []
        while batch:
            text = "".join(f"{each.decode('utf-8', 'surrogateescape')}\0" for each in batch)
            argv = ["bash", "-c", _READS_MANY]
            ended = run(argv, timeout=_TIMEOUT, env={"LC_ALL": "C"}, input=text, cwd="/")
            number = len([*takewhile(".".__eq__, ended.out.split("\0"))])
            well, batch = [*well, *batch[:number]], batch[number + 1 :] if number or ended.out else ()
        return well

    bash_scripts = [each for each in dict.fromkeys(scripts) if b"\0" not in each and _interpreter(each).name == "bash"]
    batches = [partial(read, bash_scripts[at : at + _MANY]) for at in range(0, len(bash_scripts), _MANY)]
    answers = run_many(batches, os.cpu_count() or 1)
    return frozenset(each for answer in answers if isinstance(answer, list) for each in answer)


_NEW, _ALONE = 256, 20  # scripts that are looked at; of them such as are a start of their shell each


def unread(world: World, environ: Mapping[str, str]) -> World:
    """With what shells cannot read of the first entries that have never run: a look would call them well."""
    texts: dict[str, bytes] = {}
    for entry in world.never_ran()[:_NEW]:
        with suppress(OSError):
            texts[entry.name] = read_script(entry.script)
    well = read_well(texts.values())
    doubtful = [name for name, data in texts.items() if data not in well][:_ALONE]

    def with_notes(entry: Entry) -> Entry:
        if (data := texts.get(entry.name)) is None:
            return entry
        complaint = unreadable_by(data, environ) if entry.name in doubtful else None
        problems = without_ignored(unreadable(data, complaint, word(entry.script)), data)
        return replace(entry, notes=(*entry.notes, *(replace(each, file=entry.source) for each in problems)))

    entries = (with_notes(each) for each in world.entries)
    return replace(world, entries=tuple(entries))


# --- what is asked of the cluster -------------------------------------------------------------------------------------


class Partitions:
    """A cluster's partitions by name, hidden ones too. It is asked once, where a script asks for one, or for room."""

    def __init__(self, cluster: Examinable) -> None:
        self.cluster = cluster
        self.problems: list[Problem] = []

    @cached_property
    def by_name(self) -> Mapping[str, Partition] | None:
        """None where nobody knows."""
        try:
            return {each.name: each for each in self.cluster.partitions()} or None
        except Unreachable as error:
            what = f"the cluster gave no answer, so the names of partitions were not looked at: {error.text}."
            self.problems.append(Problem("W229", what, "Try again later, or with --offline."))
            return None


class Online:
    """One cluster; after a question without an answer it is asked no more, and `problems` says so.

    `seconds`: for all questions; who has not asked for them is not kept waiting.
    """

    def __init__(self, cluster: Examinable, seconds: float | None = None) -> None:
        self.cluster = cluster
        self._submit = cluster.dialect.commands[0]
        self._until = None if seconds is None else elapsed() + seconds
        self._trouble: Problem | None = None
        self._left_out, self._why = 0, "it takes longer than a second"

    @property
    def is_brief(self) -> bool:
        """Whether nobody waits for what it says."""
        return self._until is not None

    @property
    def problems(self) -> list[Problem]:
        """What was not asked, or not answered."""
        if not self._left_out:
            return [self._trouble] if self._trouble else []
        what = f"what {self._submit} thinks of {count(self._left_out, 'script')} is not known: {self._why}."
        return [Problem("N003", what, "To wait for it: " + command("check", options=("--online",)))]

    def refusal(self, path: str, entry: Entry | None = None) -> tuple[str, ...]:
        """Why sbatch would not take the script, as the entry's run would be; () if it would, or none answers."""
        if self._trouble or (self._until is not None and elapsed() > self._until):
            self._left_out += self._trouble is None
            return ()
        try:
            return self.cluster.refusal(_submission(path, entry), entry.command if entry and entry.command else None)
        except Unreachable as error:
            if self._until is not None:
                self._why = self._why if elapsed() > self._until else error.text
                self._left_out, self._until = self._left_out + 1, 0.0
                return ()
            what = f"the cluster gave no answer, so nothing was asked of {self._submit}: {error.text}."
            self._trouble = Problem("W229", what, "Try again later, or with --offline.")
            return ()

    def of_command(self, entry: Entry) -> list[Problem]:
        """A row's command has no file of its own: what sbatch says of the script that is made of it."""
        refusal = self.refusal("", entry)
        what = f"{entry.name}: {self._submit} would refuse it: {' / '.join(refusal)}."
        fix = "Correct its sbatch: options."
        return [Problem("E228", what, fix, file_of(entry), row_of(entry))] if refusal else []


def _submission(path: str, entry: Entry | None) -> Submission:
    """Without its log: sbatch would look for the folder, which a run's submission makes."""
    if entry is None:
        return Submission(path, held=False)
    return Submission(path, entry.arguments, entry.options, chdir=entry.chdir or None, held=False)
