"""hub-sync: new and changed files of a folder to a hub, with its own command-line tool."""

from __future__ import annotations

import fnmatch
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import memory
import shelf
from shelf import Broken, Settings

JOB = "hub-sync"
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
            if not any(
                fnmatch.fnmatchcase(relative, pattern) or fnmatch.fnmatchcase(name, pattern) for pattern in include
            ):
                continue
            try:
                found = os.lstat(path)
            except FileNotFoundError:
                continue
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


def upload(hub: str, settings: Settings, folder: str, batch: Sequence[File], environ: Mapping[str, str]) -> None:
    """Send some files in one commit. Raises Broken with the tool's words, less the token.

    The tool gets a folder of links to just these files: how it takes several patterns differs between its versions.
    """
    with tempfile.TemporaryDirectory(prefix="hub-sync-") as place:
        for file in batch:
            link = os.path.join(place, file.path)
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(os.path.join(folder, file.path), link)
        argv = [hub, "upload", settings.text("REPO"), place, settings.text("PATH_IN_REPO") or "."]
        argv += [
            f"--repo-type={settings.one_of('REPO_TYPE', 'model', 'dataset', 'space')}",
            f"--commit-message=hub-sync: {shelf.plural(len(batch), 'file')}",
        ]
        answer = shelf.ask(argv, timeout=_UPLOAD_TIME, environ=environ)
    if answer.code:
        said = answer.said.replace(environ["HF_TOKEN"], "***")
        raise Broken(f"{os.path.basename(hub)} upload exited {answer.code}: {said}")


def synced(hub: str, settings: Settings, folder: Path, environ: Mapping[str, str]) -> int:
    """Look, send, remember; the exit code."""
    path = memory.state_file(JOB, "sent.json")
    known = memory.read_state(path)
    key = ":".join([*map(settings.text, ("REPO_TYPE", "REPO", "PATH_IN_REPO")), str(folder)])
    sent: dict[str, object] = dict(known.get(key, {}))
    found = list(files(str(folder), settings.text("INCLUDE").split()))
    going, passed_over = plan(
        found,
        sent,
        now=shelf.seconds_now(),
        quiet=shelf.duration(settings.text("QUIET")),
        cap=shelf.byte_count(settings.text("MAX_FILE")),
        total=shelf.byte_count(settings.text("MAX_RUN")),
    )
    for line in passed_over:
        print(f"not sent: {shelf.shown(line)}")
    if not going:
        print(f"nothing new in {folder}: {shelf.plural(len(found), 'file')} looked at")
        return shelf.FINE
    if not settings.yes("SEND"):
        print("\n".join(f"would send {shelf.shown(file.path)} ({shelf.size(file.size)})" for file in going))
        print("nothing was sent: with SEND=yes at the top of the script it is")
        return shelf.FINE
    size = shelf.size(sum(file.size for file in going))
    for start in range(0, len(going), _AT_ONCE):
        batch = going[start : start + _AT_ONCE]
        upload(hub, settings, str(folder), batch, environ)
        sent.update({file.path: file.print for file in batch})
        memory.write_state(path, {key: sent})
    print(f"sent {shelf.plural(len(going), 'file')}, {size}, to {settings.text('REPO')}")
    return shelf.FINE


def main(settings: Settings) -> int:
    """One run; its script has seen to it that it is alone."""
    repo = settings.text("REPO")
    if not repo or "://" in repo:
        raise Broken("REPO: write owner/name, not a URL: a token does not belong into one")
    folder = settings.folder("FOLDER")
    hub = shelf.find("hf", "huggingface-cli", package="pip install huggingface_hub")
    secret = shelf.private(settings.text("TOKEN_FILE"), "TOKEN_FILE")
    if os.path.realpath(folder) in map(str, Path(os.path.realpath(secret)).parents) and not secret.name.startswith("."):
        raise Broken(f"TOKEN_FILE={secret} lies in FOLDER, which is to be sent: move it elsewhere")
    token = secret.read_text(encoding="ascii", errors="replace").strip()
    if not token:
        raise Broken(f"TOKEN_FILE={secret} is empty")
    environ = {**shelf.clean_environment(os.environ), "HF_TOKEN": token, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    return synced(hub, settings, folder, environ)


if __name__ == "__main__":
    shelf.door(main)
