"""The folders that entries lie in: what is in them, and what is passed over and why."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

from cronhpc.core.model import ALL, Entry, Problem, StateError
from cronhpc.cron.values import count, dataclass, nearest
from cronhpc.script.advice import word
from cronhpc.store.files import MARKER, DiskClock, retried
from cronhpc.store.memory import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


SUFFIX = ".slurm"
FRESH = 3  # seconds: a file this young may be half written

Fingerprint = list[int]


@dataclass(frozen=True, slots=True)
class ScriptFile:
    name: str  # the entry's
    source: str  # relative to the cron directory
    path: str
    fingerprint: Fingerprint
    born: int  # when it was put there or changed last (ctime), by this machine's clock
    changed: int  # the younger of mtime and ctime, likewise
    is_link: bool


def fingerprint(status: os.stat_result) -> Fingerprint:
    """What changes whenever content, mode or owner does."""
    return [status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode, status.st_uid]


@dataclass(frozen=True, slots=True)
class Scan:
    scripts: tuple[ScriptFile, ...] = ()
    skipped: tuple[Problem, ...] = ()  # what was meant to be one and is passed over, and why
    others: tuple[str, ...] = ()  # names of what is plainly none: logs, hidden files, backups, folders


def scan(root: Path, folder: str, clock: DiskClock = DiskClock()) -> Scan:  # noqa: B008 - it is a constant
    """The scripts in `root/folder`, by name, and the rest. Raises OSError but for ENOENT."""
    try:
        listed = retried(lambda: _listed(root / folder))
    except FileNotFoundError:
        return Scan()
    looked = [(row.name, looked_at(row, f"{folder}/{row.name}", clock)) for row in listed]
    return Scan(
        tuple(each for _, each in looked if isinstance(each, ScriptFile)),
        tuple(each for _, each in looked if isinstance(each, Problem)),
        tuple(name for name, each in looked if each is None),
    )


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as rows:
        return sorted(rows, key=lambda row: row.name)


def looked_at(row: os.DirEntry[str], source: str, clock: DiskClock = DiskClock()) -> ScriptFile | Problem | None:  # noqa: B008 - it is a constant
    """A script, why one is passed over, or None for what is plainly no entry."""
    try:
        return _look(row, source, clock)
    except OSError as error:
        return Problem("W009", f"skipped: it cannot be looked at ({error.strerror}).", _reach(row, error), source)


def _reach(row: os.DirEntry[str], error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "It leads to itself: remove the link."
    place = word(os.path.dirname(os.path.realpath(row.path)))
    if isinstance(error, PermissionError):
        return f"Let yourself into where it lies: chmod u+x {place}; or remove it."
    return f"Mount what it lies on ({place}), or remove it."


def _look(row: os.DirEntry[str], source: str, clock: DiskClock) -> ScriptFile | Problem | None:
    name = row.name
    if not is_script(name):
        meant = meant_name(name)
        if not meant or row.is_dir():
            return None
        why = "a hidden file" if name.startswith(".") else "not a .slurm file"
        fix = renaming(Path(row.path), meant)
        return Problem("W003" if name.startswith(".") else "W001", f"{why}: it does not run.", fix, source)
    is_link = row.is_symlink()
    try:
        target = row.stat()
    except FileNotFoundError:
        if not is_link:
            what = "skipped: another machine has just made or removed it, and it cannot be looked at here yet."
            return Problem("W009", what, "It is looked at again by itself.", source)
        return Problem("W005", "skipped: a link to nothing.", "Bring back its target, or remove the link.", source)
    if stat.S_ISDIR(target.st_mode):
        return Problem("W007", "skipped: a folder.", "Put the script itself here; folders are not looked into.", source)
    if not stat.S_ISREG(target.st_mode):
        return Problem("W006", "skipped: neither a file nor a link to one.", "Put a batch script there.", source)
    born, prints = clock.ours(target, target.st_ctime), fingerprint(target)
    if is_link:
        own = row.stat(follow_symlinks=False)
        born, prints = max(born, clock.ours(own, own.st_ctime)), [*prints, *fingerprint(own)]
    changed = max(born, clock.ours(target, target.st_mtime))
    return ScriptFile(name.removesuffix(SUFFIX), source, row.path, prints, born, changed, is_link)


def renaming(script: Path, name: str) -> str:
    """What to do so that `script` is read, as `name` beside it; an entry of that name is never replaced."""
    if os.path.lexists(script.with_name(name)):
        return f"To run it, give it a name of its own: {name} is there already."
    return f"To run it: mv -n {word(script)} {word(script.with_name(name))}"


def moving(place: Path, to: Path, which: str = "") -> str:
    """The command that puts `place`, or the files `which` in it, into the folder `to`, and replaces nothing there."""
    source = word(place) + (f"/{which}" if which else "")
    return f"mv -n {source} {word(f'{to}/')}"


def misplaced(root: Path, cron_folders: Iterable[str]) -> Iterator[Problem]:
    """Scripts in the root, and folders that are no cron folders though they are called so: nothing in them ever runs.

    A folder is named with the one that it was meant to be (`cron.dayly`, `kills`).
    """
    cron, switches = {*cron_folders}, {"kill", "pause"}
    ours = cron | switches | {MARKER, "state", "log", "scheduler", "status.json"}
    try:
        with os.scandir(root) as rows:
            listed = sorted(row.name for row in rows if row.name not in ours)
    except OSError:
        return
    for name in listed:
        right = meant_folder(name, cron | switches)
        if is_script(name):
            if _is_of_a_series(root / name):
                continue
            what = "a script beside the cron folders: it never runs."
            yield Problem("W010", what, moving(root / name, root / "cron.daily"), name)
        elif right in switches and (files := _names_in(root / name)):
            what = f"is no folder of switches: what is in it ({count(len(files), 'file')}) does nothing."
            yield Problem("W010", what, moving(root / name, root / right, "*"), f"{name}/")
        elif name not in cron and (right or name.lower().startswith("cron.")):
            scripts = [each for each in _names_in(root / name) if is_script(each)]
            if scripts:
                never = f"its {count(len(scripts), 'script')} never {'runs' if len(scripts) == 1 else 'run'}"
                fix = moving(root / name, root / right, f"*{SUFFIX}") if right else _a_folder_more(name)
                yield Problem("W010", f"is no cron folder: {never}.", fix, f"{name}/")


def _is_of_a_series(path: Path) -> bool:
    """Whether a script is submitted by hand, and queues its next piece itself."""
    try:
        return re.search(rb"\bcronhpc\b.*\bagain\b", read_script(str(path))) is not None
    except OSError:
        return False


def _names_in(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _a_folder_more(name: str) -> str:
    kind = name.partition(".")[2]
    times = PERIODS.get(kind.lower(), "30 4 * * *")
    return f'Write in cronhpc.yaml: folders: {{{kind}: "{times}"}}; or put them into cron.d/, each with a #CRON line.'


def read_script(path: str, most: int = 4 * 1024 * 1024) -> bytes:
    """The script's bytes, at most `most` (sbatch refuses larger ones). Raises OSError; never waits on a fifo."""
    return retried(lambda: _read_script(path, most))


def _read_script(path: str, most: int) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        parts: list[bytes] = []
        while most > 0 and (part := os.read(fd, min(most, 1 << 16))):
            parts.append(part)
            most -= len(part)
        return b"".join(parts)
    finally:
        os.close(fd)


# --- names ------------------------------------------------------------------------------------------------------------
#
# They are one namespace, and of two files with one name the newcomer is refused.


def by_name(entries: Iterable[Entry], memory: Path) -> tuple[dict[str, Entry], list[Problem]]:
    """Who has each name by right, and what is said of newcomers: they neither run, nor take over what is known of it.

    The last tick knows whose a name was (`memory`: state/entries.json), else the older file has it.
    """
    named: dict[str, Entry] = {}
    newcomers: list[Entry] = []
    owners: Mapping[str, str] | None = None  # asked only where two files have one name
    for entry in entries:
        other = named.setdefault(entry.name, entry)
        if other is entry:
            continue
        owners = _owners(memory) if owners is None else owners
        owner, mine, others = owners.get(entry.name, ""), file_of(entry), file_of(other)
        is_remembered = owner in {mine, others} and mine != others
        is_first = owner == mine if is_remembered else entry.born < other.born
        named[entry.name] = entry if is_first else other
        newcomers.append(other if is_first else entry)
    fix = "Rename this one: until then it does not run."
    return named, [
        Problem(
            "E301",
            f"a second entry called {each.name!r}: {named[each.name].source} had the name first.",
            fix,
            each.source,
        )
        for each in newcomers
    ]


def _owners(memory: Path) -> dict[str, str]:
    """The file that the last tick knew each name from."""
    try:
        return {name: state.source for name, state in load(memory).entries.items()}
    except (OSError, StateError):  # said where the state is needed
        return {}


_ROW = "cronhpc.yaml:"


def file_of(entry: Entry) -> str:
    """The file that an entry is from; rows of the settings move with each edit, so their line does not count."""
    return _ROW[:-1] if entry.source.startswith(_ROW) else entry.source


def row_of(entry: Entry) -> int:
    """The line of the settings that an entry is a row of; 0: it is none."""
    return int(entry.source.removeprefix(_ROW)) if entry.source.startswith(_ROW) else 0


# --- which names mean what --------------------------------------------------------------------------------------------


_TASKS = r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*(?:%[0-9]+)?"
_JOB_ID = rf"[0-9]+(?:_(?:{_TASKS}|\[{_TASKS}\]))?"


_WORD = SUFFIX.removeprefix(".")
_ALIKE = 0.75  # two letters of five changed places
_BATCH_SUFFIXES = frozenset({_WORD, "sbatch", "batch", "job", "sub", "slm"})
_SWITCHED_OFF = r"(?i).*\.(?:off|old|bak|orig|disabled?|save|tmp|no|not|never|rej|sw[a-p])$"


# Periods that have no folder by themselves, with their schedules: `folders:` in cronhpc.yaml may make one.
PERIODS = {"minutely": "* * * * *", "yearly": "0 4 1 1 *", "annually": "0 4 1 1 *", "quarterly": "0 4 1 */3 *"}


def is_script(name: str) -> bool:
    """Whether a file of this name in a cron folder is an entry."""
    return name.endswith(SUFFIX) and not name.startswith((".", "#"))


def meant_name(name: str) -> str:
    """The name under which a file would be an entry that was most likely meant to be one; "" for any other file.

    `x.SLURM`, `x.slurm.txt`, `x.slrum`, `x.sbatch` and `.x.slurm` were; `x-7.out`, `x.slurm~`, `x.slurm.off` were not.
    """
    import difflib

    if name.endswith("~") or name.startswith(("#", ".#")) or re.match(_SWITCHED_OFF, name):
        return ""
    stem, _, suffix = name.rpartition(".")
    if suffix in {"txt", "sh"} and stem.endswith(SUFFIX):
        stem, _, suffix = stem.rpartition(".")
    alike = difflib.SequenceMatcher(None, suffix.lower(), _WORD).ratio() > _ALIKE
    bare = stem.lstrip(".")
    if not bare or not (alike or suffix.lower() in _BATCH_SUFFIXES) or (stem.startswith(".") and suffix != _WORD):
        return ""
    return f"{bare}{SUFFIX}"


def meant_folder(name: str, folders: Iterable[str]) -> str:
    """The one of `folders` (`cron.daily`, `kill`) that a folder called `name` was meant to be, or ""."""
    names = sorted(folders)
    if name in names or name.lower().rpartition(".")[2] in PERIODS:
        return ""
    plain = name.lower() if "cron" in name.lower() or f"cron.{name.lower()}" not in names else f"cron.{name.lower()}"
    return nearest(plain, names, 0.8) or ""


def unswitchable(name: str, source: str) -> Problem | None:
    """What is wrong with an entry called so: neither could be stopped without the other."""
    if name == ALL:
        what = "a switch of the name ALL stops everything, so this entry cannot be stopped by itself."
    elif re.fullmatch(_JOB_ID, name):
        what = f"a switch of the name {name} stops job {name}, so this entry cannot be stopped by itself."
    else:
        return None
    near = "everything" if name == ALL else f"job-{name}"
    return Problem("E302", what, f"Rename it, for instance to {near}: until then it does not run.", source)
