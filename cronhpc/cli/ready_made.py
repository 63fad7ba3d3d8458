"""The shelf of ready-made jobs and examples: what lies on it, and a copy of one in a cron directory."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cronhpc.core.model import CronhpcError, Problem, Settings
from cronhpc.cron.values import dataclass
from cronhpc.script.dialect import SLURM, Dialect
from cronhpc.store.entries import unswitchable
from cronhpc.store.files import create_once

if TYPE_CHECKING:
    from cronhpc.store.files import Paths

SUFFIX = ".slurm"
_PACKAGE = Path(__file__).resolve().parent.parent
_HEAD = re.compile(r"\A#!.*\n# (?P<name>[\w-]+): (?P<what>.+)\n# Runs: (?P<runs>[^.\n]+)\.(?: Edit: (?P<edit>.+)\.)?\n")
_EXAMPLE = re.compile(r'\A(?:#!.*\n# |""")(?P<name>[\w-]+): (?P<what>.+)\n')
_LIB = re.compile(r"\$\{CRONHPC_JOBS_LIB:-[^}]*\}")  # the copy has its folder of jobs/lib here
_STARTED = re.compile(r"^start (\w+\.py)", re.MULTILINE)
_SLURMS = re.compile(
    r"\b(?:srun|squeue|slurm_queue|sinfo|sacct|sshare|scontrol|scancel|submitit)\b"
    rf"|\$\{{?{SLURM.foreign[0]}\w+(?![\w:])"
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FOLDERS = frozenset({"hourly", "daily", "weekly", "monthly"})
_OTHER_TIMES = {"half-hourly": "H/30 * * * *"}  # what no folder is for


class AddError(CronhpcError):
    """A job cannot be taken from the shelf."""


@dataclass(frozen=True, slots=True)
class ReadyMade:
    """A job on the shelf. `runs`: its cadence; "by itself": it is submitted once, by hand; "": it is an example."""

    name: str
    what: str
    runs: str
    edit: str
    path: Path

    @property
    def is_entry(self) -> bool:
        """Whether a schedule starts it."""
        return self.runs in _FOLDERS or self.runs in _OTHER_TIMES

    @property
    def is_example(self) -> bool:
        """Whether it is there to start a script of one's own from."""
        return not self.runs


@dataclass(frozen=True, slots=True)
class Copy:
    """What is to be written: `script` at `path`, and the files that it needs."""

    job: ReadyMade
    name: str
    path: Path
    script: bytes
    companions: tuple[tuple[Path, bytes], ...]
    cron: str  # its #CRON line, "" where the folder says when


def shelf(where: Path | None = None) -> Path:
    """The folder of ready-made jobs: in an installation, or in a checkout. Raises AddError."""
    for folder in (where,) if where else (_PACKAGE / "_jobs", _PACKAGE.parent / "jobs"):
        if folder is not None and (folder / "lib").is_dir():
            return folder
    raise AddError(f"The ready-made jobs are not beside {_PACKAGE}: this installation is not whole. Install it again.")


def jobs(where: Path | None = None) -> tuple[ReadyMade, ...]:
    """All jobs on the shelf, by name. Raises AddError, OSError."""
    return tuple(_job(path) for path in sorted(shelf(where).glob(f"*{SUFFIX}")))


def examples(where: Path | None = None) -> tuple[ReadyMade, ...]:
    """All examples, by name: the files whose first line has it. Raises AddError, OSError."""
    paths = sorted((shelf(where) / "examples").iterdir())
    heads = ((path, _EXAMPLE.match(path.read_text(encoding="utf-8"))) for path in paths if path.is_file())
    return tuple(
        ReadyMade(match["name"], match["what"].rstrip("."), "", "", path)
        for path, match in heads
        if match and match["name"] == path.stem
    )


def _job(path: Path) -> ReadyMade:
    match = _HEAD.match(path.read_text(encoding="utf-8"))
    if match is None or match["name"] != path.stem:
        raise AddError(f"{path}: its first lines do not say what it does. Install cronhpc again.")
    return ReadyMade(match["name"], match["what"].rstrip("."), match["runs"], match["edit"] or "", path)


def lacking(job: ReadyMade, dialect: Dialect) -> str:
    """Why a job is not for this batch system; "": it is for it. Raises OSError."""
    text = job.path.read_text(encoding="utf-8")
    if not dialect.as_sbatch and (command := next(_slurms_own(job, text), "")):
        return f"it asks Slurm ({command})"
    return dialect.no_again if re.search(r"cronhpc\s+again", text) else ""


def _slurms_own(job: ReadyMade, text: str) -> Iterator[str]:
    """What a job, and the Python file that it starts, takes from Slurm; not where its own files lie."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#") and "me=$(scontrol" not in line]
    for name in _STARTED.findall(text):
        lines += (shelf_of(job) / "lib" / name).read_text(encoding="utf-8").splitlines()
    return (match[0] for line in lines for match in _SLURMS.finditer(line.partition(" #")[0]))


def copy_of(
    job: ReadyMade, paths: Paths, settings: Settings, *, name: str, schedule: str, dialect: Dialect = SLURM
) -> Copy:
    """`job` as an entry called `name`; `schedule` "": its own cadence. Raises AddError, OSError; writes nothing.

    An example gets a folder of its own, examples/NAME, with what belongs to it. Its directives are for `dialect`.
    """
    if why := lacking(job, dialect):
        raise AddError(f"{job.name} is not for {dialect.title}: {why}. Nothing was added.")
    if not _NAME.fullmatch(name):
        raise AddError(
            f"--as {name!r}: a name has letters, digits, '.', '-' and '_', and begins with one of the first."
        )
    unfit = unswitchable(name, "")
    if unfit:
        raise AddError(f"--as {name}: {unfit.what} Take another name.")
    if job.is_example and schedule:
        raise AddError(f"{job.name} is an example, and has no schedule: add it, edit it, then put it into cron.daily/.")
    if len(schedule.splitlines()) > 1:
        raise AddError("--schedule: write it on one line, as a #CRON line has it.")
    other = None if job.is_example else dict(_names(paths, settings)).get(name)
    if other:
        raise AddError(f"There is an entry called {name} already: {other}. Take another name: --as NAME")
    text = job.path.read_text(encoding="utf-8").replace(f"--job-name={job.name}", f"--job-name={name}", 1)
    folder, cron = _place(job, name, settings, schedule)
    if cron:
        text = _with_cron(text, cron)
    text = _with_head(text, dialect)
    path = paths.root / folder / f"{name}{job.path.suffix}"
    lib = _lib(shelf_of(job), paths.root) if _LIB.search(text) else ()
    if lib:
        text = _LIB.sub(lambda _: shlex.quote(str(lib[0][0].parent)), text)
    copy = Copy(job, name, path, text.encode(), (*lib, *_beside(job, path.parent, text)), cron)
    for problem in () if job.is_example else _complaints(copy, dialect):
        raise AddError(f"--schedule {schedule!r}: {problem.what} {problem.fix}")
    return copy


def shelf_of(job: ReadyMade) -> Path:
    """The folder that has jobs/lib, of the shelf that `job` lies on."""
    return job.path.parent.parent if job.is_example else job.path.parent


def _beside(job: ReadyMade, folder: Path, text: str) -> tuple[tuple[Path, bytes], ...]:
    """The files of an example that have no name of their own on the shelf, and that its text names."""
    if not job.is_example:
        return ()
    listed = {each.path for each in examples(shelf_of(job))}
    files = (path for path in sorted(job.path.parent.iterdir()) if path.is_file() and path not in listed)
    return tuple((folder / path.name, path.read_bytes()) for path in files if path.name in text)


def _place(job: ReadyMade, name: str, settings: Settings, schedule: str) -> tuple[str, str]:
    """(folder in the cron directory, the #CRON line's text)."""
    if schedule:
        return "cron.d", schedule
    if job.is_example:
        return f"examples/{name}", ""
    if not job.is_entry:
        return "", ""
    if job.runs in dict(settings.folders):
        return f"cron.{job.runs}", ""
    return "cron.d", _OTHER_TIMES.get(job.runs, f"@{job.runs}")


def _with_cron(text: str, cron: str) -> str:
    """Below the last #SBATCH line: beside what else is said to the scheduler."""
    lines = text.split("\n")
    last = max(number for number, line in enumerate(lines) if line.startswith("#SBATCH"))
    return "\n".join([*lines[: last + 1], f"#CRON {' '.join(cron.split())}", *lines[last + 1 :]])


def _with_head(text: str, dialect: Dialect) -> str:
    """The directives as `dialect` has them; what it has not stays as a comment."""
    if dialect.as_sbatch:
        return text
    from cronhpc.script.spelling import foreign_line

    lines = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.startswith(SLURM.prefix):
            lines.append(line)
            continue
        right = foreign_line(line, number, SLURM, dialect)
        lacking = f"# {dialect.title} has nothing of its own for {' '.join(right.missing)}"
        lines += [*([right.line] if right.line else []), *([lacking] if right.missing else [])]
    return "\n".join(lines)


def _complaints(copy: Copy, dialect: Dialect) -> Iterable[Problem]:
    from cronhpc.check.lint import lint_script

    schedule = None if copy.cron else "0 4 * * *"
    problems = lint_script(copy.path.name, copy.script, folder_schedule=schedule, dialect=dialect)
    return (problem for problem in problems if problem.code.startswith("E1"))


def _names(paths: Paths, settings: Settings) -> Iterator[tuple[str, str]]:
    """(name, where) of every entry, and of what stands in a new one's way."""
    for folder in (*(f"cron.{each}" for each, _ in settings.folders), "cron.d", ""):
        place = paths.root / folder
        if place.is_dir():
            yield from ((each.stem, paths.relative(each)) for each in place.iterdir() if each.suffix == SUFFIX)
    yield from ((row.name, "cronhpc.yaml") for row in settings.entries)


def _lib(place: Path, root: Path) -> tuple[tuple[Path, bytes], ...]:
    """The files of jobs/lib, for a folder named after their content: another version's jobs keep their own."""
    files = [(path.name, path.read_bytes()) for path in sorted((place / "lib").iterdir()) if path.is_file()]
    content = hashlib.sha256()
    for name, data in files:
        content.update(name.encode() + b"\0" + data + b"\0")
    folder = root / "lib" / f"jobs-{content.hexdigest()[:8]}"
    return tuple((folder / name, data) for name, data in files)


def write(copy: Copy) -> None:
    """Put the copy there; the script last, so that it never starts without its files. Raises AddError, OSError."""
    for path, data in copy.companions:
        for folder in (path.parent.parent, path.parent):
            folder.mkdir(mode=0o755, exist_ok=True)
        if create_once(path, data):
            path.chmod(0o644)
        elif path.read_bytes() != data:
            raise AddError(f"{path} has been changed. Move it away, then add the job again.")
    copy.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if not create_once(copy.path, copy.script):
        raise AddError(f"{copy.path} is there already, and is kept. Take another name: --as NAME")
    copy.path.chmod(0o700)  # it may come to hold what is nobody else's business
