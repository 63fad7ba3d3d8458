"""wandb-sync: offline runs of Weights & Biases that have not changed for a while, each with `wandb sync`."""

from __future__ import annotations

import netrc
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import alerts
import shelf
from alerts import Alert
from shelf import Broken, Settings

JOB = "wandb-sync"
_ONE_TIME = 10 * 60


def offline_runs(folders: Sequence[Path]) -> Iterator[Path]:
    """The folders of offline runs, the oldest first: their names begin with the time."""
    found = {run.resolve() for folder in folders for run in folder.glob("**/offline-run-*") if run.is_dir()}
    yield from sorted(found, key=lambda run: run.name)


def last_change(run: Path) -> float:
    """When something in it was written last, in seconds since 1970; the marks of a sync do not count."""
    times = [os.lstat(run).st_mtime] if not _marks(run) else [0.0]
    for place, _, names in os.walk(run):
        paths = (os.path.join(place, name) for name in names if not name.endswith(".synced"))
        times.extend(os.lstat(path).st_mtime for path in paths)
    return max(times)


def _marks(run: Path) -> list[Path]:
    return list(run.glob("*.wandb.synced"))


def is_synced(run: Path) -> bool:
    """Whether wandb has marked it, and nothing was written since (a run that was resumed)."""
    marks = _marks(run)
    return bool(marks) and max(mark.stat().st_mtime for mark in marks) >= last_change(run)


def has_key(host: str) -> None:
    """The key lies in a netrc that only its owner may read. Raises Broken with the fix."""
    path = shelf.private(os.environ.get("NETRC", "~/.netrc"), "the key's file")
    try:
        found = netrc.netrc(str(path)).authenticators(host)
    except netrc.NetrcParseError as error:
        raise Broken(f"{path}:{error.lineno}: {error.msg}") from None
    if found is None:
        raise Broken(f"{path} has no key for {host}: run `wandb login` once on a login node")


def sync(wandb: str, run: Path, host: str) -> str:
    """Send one run; what went wrong, "" for nothing."""
    environ = shelf.clean_environment(os.environ)
    environ.update(WANDB_BASE_URL=f"https://{host}", WANDB_SILENT="true")
    environ.pop("WANDB_MODE", None)  # offline, as the training had it
    try:
        answer = shelf.ask([wandb, "sync", str(run)], timeout=_ONE_TIME, environ=environ)
    except Broken as error:
        return str(error)
    return "" if answer.code == 0 else f"wandb sync exited {answer.code}: {answer.said}"


def main(settings: Settings) -> int:
    """Each run that is due; one that fails does not keep the others."""
    folders = [
        shelf.folder(text, "FOLDERS") for text in settings.given("FOLDERS", "name the folders in which trainings run")
    ]
    host, quiet = settings.text("HOST"), shelf.duration(settings.text("QUIET"))
    wandb = shelf.find("wandb", package="pip install wandb")
    has_key(host)
    failed = list(_each(wandb, folders, host, quiet))
    for alert in failed:
        print(alert.text)
    return alerts.tell(JOB, failed, now=shelf.seconds_now(), notify=settings.text("NOTIFY"))


def _each(wandb: str, folders: Sequence[Path], host: str, quiet: int) -> Iterator[Alert]:
    now, done, waiting = shelf.seconds_now(), 0, 0
    for run in offline_runs(folders):
        if is_synced(run):
            continue
        if now - last_change(run) < quiet:
            waiting += 1
            continue
        wrong = sync(wandb, run, host)
        if wrong:
            yield Alert(str(run), f"{shelf.shown(run)}: {wrong}")
        else:
            done += 1
            print(f"synced {shelf.shown(run)}")
    print(f"synced {shelf.plural(done, 'run')}; {waiting} still being written")


if __name__ == "__main__":
    shelf.door(main)
