"""backup: a copy of folders with rsync or rclone, compared with its source afterwards. A copy, not a mirror."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import alerts
import shelf
from alerts import Alert
from shelf import Broken, Settings

_PARTIAL = {23: "some files could not be copied", 24: "some files vanished while they were copied"}
_SHOWN = 20
_HOURS = 4

# rsync: [sender] send_files failed to open "/a/b": …; file has vanished: "/a/b"; link_stat "…" failed; opendir "…"
_NAMED = re.compile(r'(?:failed to open|has vanished:|link_stat|opendir|readlink_stat\(|readlink) ?"([^"\n]+)"')
_REMOTE = re.compile(r"[^/]+:")


@dataclass(frozen=True)
class Copy:
    """One folder and where it goes, by `tool` with `options`; `target` gets a folder of its name."""

    source: Path
    target: str
    tool: str
    options: tuple[str, ...] = ()

    def copying(self) -> list[str]:
        """The command that copies. It deletes nothing: neither tool is told to."""
        if self.tool == "rclone":
            return [self.tool, "copy", "--links", *self.options, *self._ends()]
        return [self.tool, "-a", "--partial", *self.options, *self._ends()]

    def comparing(self, *, whole: bool) -> list[str]:
        """The command that lists what differs; `whole`: by content, else by size (and time)."""
        if self.tool == "rclone":
            how = "--download" if whole else "--size-only"
            return [self.tool, "check", "--one-way", "--combined=-", how, "--links", *self.options, *self._ends()]
        said = ["--dry-run", "--itemize-changes", "--out-format=%i %n", *(["--checksum"] if whole else [])]
        return [self.tool, "-a", *said, *self.options, *self._ends()]

    def _ends(self) -> list[str]:
        if self.tool == "rclone":
            return [str(self.source), f"{self.target.rstrip('/')}/{self.source.name}"]
        return ["--", str(self.source), self.target]


def compared(text: str, tool: str) -> list[str]:
    """The files that differ, of what the comparing command prints; folders' times and the like do not count."""
    if tool == "rclone":  # "= path", "+ path" missing there, "* path" differs, "! path" could not be read
        return [line[2:] for line in text.splitlines() if line[:2] in {"+ ", "* ", "! "}]
    rows = [line.partition(" ") for line in text.split("\n")]
    return [_unescaped(name) for flags, _, name in rows if name and re.match(r"[<>ch][fL]", flags)]


def named_in(errors: str) -> set[str]:
    """The paths that rsync complained of."""
    return {_unescaped(name) for name in _NAMED.findall(errors)}


def _unescaped(name: str) -> str:
    r"""A name as it is: rsync prints what is not plain ASCII as \#303."""
    data = re.sub(rb"\\#([0-3][0-7]{2})", lambda match: bytes([int(match[1], 8)]), os.fsencode(name))
    return os.fsdecode(data)


def excused(copy: Copy, names: Iterable[str], complained: set[str], since: float) -> Iterator[str]:
    """Of files that differ, those that are known not to be copied, or have changed since the copy began."""
    for name in names:
        path = copy.source.parent / name if copy.tool == "rsync" else copy.source / name
        if any(str(path) == each or str(path).startswith(each + "/") for each in complained) or _moves(path, since):
            yield name


def _moves(path: Path, since: float) -> bool:
    """Whether it is gone or has changed since, or it, or its folder, is closed to us."""
    try:
        found = os.lstat(path)
    except OSError:
        return True
    closed = not stat.S_ISLNK(found.st_mode) and not os.access(path, os.R_OK)
    return closed or max(found.st_mtime, found.st_ctime) >= since


# --- the job -------------------------------------------------------------------------------------------------------


def check(copy: Copy) -> None:
    """Look at source and target before anything is copied. Raises Broken."""
    source, target = copy.source, copy.target
    with os.scandir(source) as rows:
        if next(rows, None) is None:
            raise Broken(f"{source} is empty: not mounted? Nothing was copied")
    if not _REMOTE.match(target):
        place, real = Path(os.path.realpath(target)), Path(os.path.realpath(source))
        if place == real or real in place.parents:
            raise Broken(f"TARGET={target} lies in {source}, which is to be copied: choose another")


def back_up(copy: Copy, verify: str) -> list[str]:
    """Copy and compare; what is wrong, in lines. Raises Broken where a tool failed altogether."""
    began = shelf.seconds_now() - 2  # clocks of file servers differ a little
    answer = shelf.ask(copy.copying(), timeout=_HOURS * 3600)
    complained = named_in(answer.err)
    if copy.tool == "rsync" and answer.code in _PARTIAL:
        print(f"{copy.source}: {_PARTIAL[answer.code]}, which is no failure:")
        print("\n".join(f"  {line}" for line in answer.err.splitlines()[:_SHOWN]))
    elif answer.code:
        raise Broken(f"{copy.source}: {copy.tool} exited {answer.code}: {answer.said}")
    if verify == "no":
        print(f"{copy.source}: copied to {copy.target}, not compared (VERIFY=no)")
        return []
    return _differences(copy, verify, complained, began)


def _differences(copy: Copy, verify: str, complained: set[str], began: float) -> list[str]:
    answer = shelf.ask(copy.comparing(whole=verify == "content"), timeout=_HOURS * 3600)
    different = compared(answer.out, copy.tool)
    if answer.code not in {0, *_PARTIAL} and not (copy.tool == "rclone" and different):
        raise Broken(f"{copy.source}: copied, but comparing failed: {copy.tool} exited {answer.code}: {answer.said}")
    known = set(excused(copy, different, complained | named_in(answer.err), began))
    wrong = [name for name in different if name not in known]
    but = f"; {shelf.plural(len(known), 'file')} changed meanwhile, or cannot be read" if known else ""
    print(f"{copy.source}: copied to {copy.target} and compared by {verify}{but}")
    return [f"{copy.source}: {shelf.shown(name)} is not in the copy as it is here" for name in wrong]


def main(settings: Settings) -> int:
    """Each source in turn; one that fails does not keep the others from being copied."""
    tool, target, options = settings.text("TOOL"), settings.text("TARGET"), tuple(settings.array("OPTIONS"))
    folders = [Path(os.path.normpath(text)) for text in settings.array("SOURCES")]
    named: dict[str, Path] = {}
    for folder in folders:
        if (other := named.setdefault(folder.name, folder)) != folder:
            raise Broken(f"SOURCES: {other} and {folder} would be one folder in TARGET: give one a job of its own")
    copies = [Copy(folder, target, tool, options) for folder in folders]
    standing, fine, broken = [], {}, []
    for copy in copies:
        key = str(copy.source)
        try:
            check(copy)
            wrong = back_up(copy, settings.text("VERIFY"))
        except Broken as error:
            broken.append(str(error))
            continue
        if wrong:
            print("\n".join(wrong[:_SHOWN]))
            differs = f"differs in {shelf.plural(len(wrong), 'file')}"
            standing.append(Alert(key, f"{key}: the copy at {copy.target} {differs}"))
        else:
            fine[key] = f"{key}: the copy at {copy.target} is as it is here"
    unknown = frozenset(str(copy.source) for copy in copies) if broken else frozenset()
    code = alerts.tell(settings, standing, unknown, now=shelf.seconds_now(), fine=fine)
    if broken:
        raise Broken("; ".join(broken))
    return code


if __name__ == "__main__":
    shelf.run(main)
