"""hub-sync: new and changed files of a folder to a hub, with its own command-line tool."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import shelf
from shelf import Broken, Settings

_AT_ONCE = 500  # files a commit: what was sent is remembered, though a later one fails
_UPLOAD_TIME = 25 * 60


@dataclass(frozen=True)
class File:
    """A file to be sent: `path` relative to the folder, `at` when it changed last (seconds since 1970)."""

    path: str
    size: int
    at: float

    @property
    def print(self) -> list[float]:
        """What changes when its content does."""
        return [self.size, self.at]


def files(folder: str, include: Sequence[str]) -> Iterator[File]:
    """The regular files below a folder that one of the patterns fits.

    Links are left out: they may lead anywhere; and so is what is hidden: keys and tokens are.
    """
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(each for each in names if not each.startswith(".")):
            path = os.path.join(place, name)
            relative = os.path.relpath(path, folder)
            if not any(fnmatch.fnmatchcase(word, pattern) for pattern in include for word in (relative, name)):
                continue
            with contextlib.suppress(FileNotFoundError):
                found = os.lstat(path)
                if stat.S_ISREG(found.st_mode):
                    yield File(relative, found.st_size, found.st_mtime)


def plan(
    found: Sequence[File], sent: Mapping[str, object], *, now: float, quiet: int, cap: int, total: int
) -> tuple[list[File], list[str]]:
    """(what is to be sent now, what is not and why). The oldest first, so that nothing is put off for ever."""
    going: list[File] = []
    passed_over = []
    room = total
    for file in sorted(found, key=lambda each: (each.at, each.path)):
        if sent.get(file.path) == file.print:
            continue
        if cap and file.size > cap:
            passed_over.append(f"{file.path}: {shelf.size(file.size)} is more than MAX_FILE")
        elif now - file.at < quiet:
            passed_over.append(f"{file.path}: changed {shelf.ago(now - file.at)} ago, perhaps still being written")
        elif total and file.size > room:
            passed_over.append(f"{file.path}: next time: MAX_RUN is used up")
        else:
            room -= file.size
            going.append(file)
    return going, passed_over


def upload(settings: Settings, folder: str, batch: Sequence[File], environ: Mapping[str, str]) -> None:
    """Send some files in one commit. Raises Broken with the tool's words, less the token.

    The tool gets a folder of links to just these files: how it takes several patterns differs between its versions.
    """
    with tempfile.TemporaryDirectory(prefix="hub-sync-") as place:
        for file in batch:
            link = os.path.join(place, file.path)
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(os.path.join(folder, file.path), link)
        hub, repo = settings.text("hub"), settings.text("REPO")
        said = f"--commit-message=hub-sync: {shelf.plural(len(batch), 'file')}"
        argv = [hub, "upload", repo, place, settings.text("PATH_IN_REPO") or ".", said]
        answer = shelf.ask([*argv, f"--repo-type={settings.text('REPO_TYPE')}"], timeout=_UPLOAD_TIME, environ=environ)
    if answer.code:
        said = answer.said.replace(environ["HF_TOKEN"], "***")
        raise Broken(f"{os.path.basename(hub)} upload exited {answer.code}: {said}")


def main(settings: Settings) -> int:
    """Look, send, remember; its script has seen to it that it is alone."""
    token = Path(settings.text("TOKEN_FILE")).read_text(encoding="ascii", errors="replace").strip()
    environ = {**shelf.clean_environment(os.environ), "HF_TOKEN": token, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    folder = settings.text("FOLDER")
    path = settings.state("sent.json")
    known = shelf.read_state(path)
    key = ":".join([*map(settings.text, ("REPO_TYPE", "REPO", "PATH_IN_REPO")), folder])
    sent: dict[str, object] = dict(known.get(key, {}))
    found = list(files(folder, settings.text("INCLUDE").split()))
    quiet, cap, total = map(settings.number, ("QUIET", "MAX_FILE", "MAX_RUN"))
    going, passed_over = plan(found, sent, now=shelf.seconds_now(), quiet=quiet, cap=cap, total=total)
    for line in passed_over:
        print(f"not sent: {shelf.shown(line)}")
    if not going:
        print(f"nothing new in {folder}: {shelf.plural(len(found), 'file')} looked at")
        return shelf.FINE
    if settings.text("SEND") != "yes":
        print("\n".join(f"would send {shelf.shown(file.path)} ({shelf.size(file.size)})" for file in going))
        print("nothing was sent: with SEND=yes at the top of the script it is")
        return shelf.FINE
    size = shelf.size(sum(file.size for file in going))
    for start in range(0, len(going), _AT_ONCE):
        batch = going[start : start + _AT_ONCE]
        upload(settings, folder, batch, environ)
        sent.update({file.path: file.print for file in batch})
        shelf.write_state(path, {key: sent})
    print(f"sent {shelf.plural(len(going), 'file')}, {size}, to {settings.text('REPO')}")
    return shelf.FINE


if __name__ == "__main__":
    shelf.run(main)
