"""What `doctor` says of the disk, of this machine, and of the nodes that a probe has run on. Pure."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cronhpc.core.model import command
from cronhpc.core.model.site import Finding
from cronhpc.cron.words import are

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cronhpc.core.model import Job, Problem
    from cronhpc.core.model.site import Disk

_GIB = 1 << 30
_SCARCE = 0.02
_INODES = 10_000
_OTHERS_WRITE, _GROUP_WRITES = 0o002, 0o020
_SKEW, _SKEW_BAD = 5, 120  # seconds
_LIMIT = re.compile(r"(?:QOS|Assoc)\w*Limit|submit limit|temporarily unavailable|queue full", re.IGNORECASE)

_SUBMIT = command("doctor", options=("--submit",))
_URL = command("doctor", options=("--submit", "--url", "https://example.org"))
_IF_STALE = command("start", options=("--if-stale",))


@dataclass(frozen=True, slots=True)
class Beat:
    """A way in which something outside the chain could call `cronhpc tick`, or `start --if-stale`."""

    name: str
    usable: bool | None  # None: unknown
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Here:
    """This machine, and the user on it."""

    umask: int
    user: str
    group: str  # the primary one
    group_is_private: bool  # nobody else is in it
    python: str
    tzdata: str  # "" where there is none
    zone: str
    beats: tuple[Beat, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A compute node, as the probe job saw it. "" means well; None: not tried, or no word."""

    name: str
    python: str | None = None  # what is wrong with the interpreter there
    submit: str | None = None  # why sbatch was refused
    cancel: str | None = None
    clock: float | None = None  # seconds that it is ahead of the controller
    tzdata: str | None = None
    umask: int | None = None
    disk: str | None = None  # what went wrong with a file operation
    tried: tuple[int, ...] = ()  # the numbers of the names that it raced for
    created: tuple[int, ...] = ()  # of those that it created
    linked: tuple[int, ...] = ()  # of those that it linked
    network: str | None = None


# --- the disk ------------------------------------------------------------------------------------------------------


def of_disk(disk: Disk, *, seen: bool = False) -> Iterator[Finding]:
    """What the cron directory lies on; `seen`: nodes have it, as a probe there has shown."""
    kind = disk.kind or "a file system of unknown kind"
    where = f"{disk.path} is on {kind} ({disk.mount})" if disk.mount else f"{disk.path} is on {kind}"
    if "ro" in disk.options:
        yield Finding("error", "disk", f"{where}, mounted read-only.", "Choose another folder: --dir, or CRONHPC_DIR.")
    elif disk.reach == "memory" and not seen:
        what = f"{where}: in this machine's memory, so nodes do not see it, and it is gone after a restart."
        yield Finding("error", "disk", what, "Choose a folder on a shared disk: --dir, or CRONHPC_DIR.")
    elif disk.reach == "local" and not seen:
        what = f"{where}, which looks like a disk of this machine alone."
        yield Finding("warning", "disk", what, "See whether nodes have it: " + _SUBMIT + ".")
    else:
        yield Finding("fine", "disk", f"{where}{', shared' if disk.reach == 'shared' else ''}.")
    loose = [
        each for each in disk.options if each in {"nolock", "localflock", "soft"} or each.startswith("local_lock=")
    ]
    if "soft" in loose:
        what = "it is mounted soft: when the server is slow, writing fails instead of waiting."
        yield Finding("advice", "disk", what, "Nothing is lost: what could not be recorded is done again.")
    elif loose and loose != ["local_lock=none"]:
        yield Finding("fine", "disk", f"mounted with {', '.join(loose)}: no harm, cronhpc takes no locks there.")
    yield from _room(disk)
    if disk.purged:
        what = f"the site may remove what lies there ({disk.purged}): such places are often purged."
        yield Finding("warning", "purge", what, "Choose a place that is kept, such as your home or project folder.")


def _room(disk: Disk) -> Iterator[Finding]:
    if disk.bytes_free < _GIB or disk.bytes_free < _SCARCE * disk.bytes_total:
        unit, name = (_GIB, "GB") if disk.bytes_total >= _GIB else (_GIB // 1024, "MB")
        what = f"{disk.bytes_free / unit:.1f} of {disk.bytes_total / unit:.0f} {name} are free there."
        yield Finding("warning", "room", what, "Make room: " + command("clean") + "; and see your quota.")
    else:
        yield Finding("fine", "room", f"{disk.bytes_free / _GIB:.0f} GB are free there (your quota may say less).")
    if disk.inodes_total and disk.inodes_free < max(_INODES, _SCARCE * disk.inodes_total):
        yield Finding("warning", "room", f"{are(disk.inodes_free, 'inode')} left there.", "Remove small files.")


def of_rooms(closed: Iterable[str]) -> Iterator[Finding]:
    """Folders of the cron directory in which a tick could write nothing."""
    for place in closed:
        fix = "A tick writes there: chmod u+rwx it, or see whether what it lies on is mounted read-only."
        yield Finding("error", "disk", f"you cannot write in {place}.", fix)


def of_trust(refused: Problem | None, way: Problem | None) -> Iterator[Finding]:
    """`refused`: why the directory itself is not trusted; `way`: who could put another in its place."""
    if refused is not None:
        yield Finding("error", "trust", refused.what, refused.fix)
    if way is not None:
        what = f"{way.what} So another folder could be put in the place of this one, and its scripts run as you."
        yield Finding("warning", "trust", what, way.fix)
    if refused is None and way is None:
        yield Finding("fine", "trust", "nobody else can change the cron directory, or what is above it.")


# --- this machine --------------------------------------------------------------------------------------------------


def of_machine(here: Here, *, needs_network: bool) -> Iterator[Finding]:
    """umask, interpreter, time zones, and what could call ticks from outside."""
    yield from _umask(here)
    if here.tzdata:
        yield Finding("fine", "zones", f"time zones are of tzdata {here.tzdata}; schedules follow {here.zone}.")
    else:
        fix = "Put the package tzdata where cronhpc is installed, or have it installed."
        yield Finding("error", "zones", "there is no time zone database here: only UTC can be used.", fix)
    usable = [beat.name for beat in here.beats if beat.usable]
    rest = ", ".join(f"{beat.name} ({beat.detail})" for beat in here.beats if not beat.usable and beat.detail)
    if usable:
        what = f"a heartbeat from outside the chain could be {' or '.join(usable)}{f'; not: {rest}' if rest else ''}."
        fix = "For when all jobs are lost at once: a line there that says " + _IF_STALE
        yield Finding("advice", "heartbeat", what, fix)
    else:
        what = f"nothing here can call cronhpc from outside the chain{f': {rest}' if rest else ''}."
        fix = "For when all jobs are lost at once: " + _IF_STALE + " in your login script."
        yield Finding("advice", "heartbeat", what, fix)
    if needs_network:
        what = "the settings have pings: ticks need the way out to that address."
        yield Finding("advice", "network", what, "Try it, from nodes too: " + _URL)


def _umask(here: Here) -> Iterator[Finding]:
    if here.umask & _OTHERS_WRITE == 0:
        what = f"umask {here.umask:03o} lets everybody write what you make: such scripts are not trusted."
        yield Finding("error", "umask", what, "Put umask 022 into your login script.")
    elif here.umask & _GROUP_WRITES == 0:
        what = f"umask {here.umask:03o} lets the group {here.group} write what you make: such scripts are not trusted"
        if here.group_is_private:
            put = (("trust.group", here.group),)
            yield Finding("warning", "umask", f"{what}, though you alone are in it.", "Or umask 022.", put)
        else:
            yield Finding("warning", "umask", f"{what}.", "Put umask 022 into your login script, or chmod g-w each.")
    else:
        yield Finding("fine", "umask", f"umask {here.umask:03o}: what you make only you can write.")


# --- compute nodes -------------------------------------------------------------------------------------------------


def of_nodes(nodes: Sequence[Node], here: Here) -> Iterator[Finding]:
    """What the probe job found. No node: it did not come to run."""
    for node in nodes:
        yield from _submits(node, here)
        yield from _has_python(node, here)
        yield from _agrees(node, here)
        if node.network is not None:
            level = "warning" if node.network else "fine"
            what = (
                f"the address given cannot be reached from {node.name}: {node.network}."
                if node.network
                else (f"the address given can be reached from {node.name}.")
            )
            yield Finding(level, "network", what, "Let a daemon on a login node send pings." if node.network else "")


def of_submission(seen: Job | None, *, name: str, comment: str, begin: int) -> Iterator[Finding]:
    """What a site makes of a held submission: a plugin of the controller, or a wrapper, may change all of it.

    `seen`: the job as the queue shows it; `name`, `comment`, `begin` (epoch seconds) as they were asked for.
    """
    if seen is None:
        what = "a job that was submitted held is not in the queue."
        yield Finding("unknown", "options", what, "Ask again later.")
        return
    ask = "Ask the administrators to leave it alone."
    replaced, early = comment not in seen.comment, (seen.start or 0) < begin - _SKEW_BAD
    changed = (
        ("error", not seen.held, "drops --hold: runs begin before they are written down", ask),
        ("warning", early, "drops --begin: links and runs get it once more, from scontrol", ask),
        ("warning", replaced, "replaces --comment: a script's own is lost; jobs are known by their recorded ids", ""),
        ("advice", not replaced and comment != seen.comment, "adds to --comment, also to a script's own", ""),
        ("warning", seen.name != name, "changes --job-name: name the entry, not the job, in a switch", ""),
    )
    for level, is_so, what, fix in changed:
        if is_so:
            yield Finding(level, "options", f"this site {what}.", fix)
    if not any(is_so for _, is_so, _, _ in changed):
        yield Finding("fine", "options", "this site keeps --hold, --begin, --comment and --job-name as they are given.")


def _submits(node: Node, here: Here) -> Iterator[Finding]:
    if node.submit == "":
        yield Finding("fine", "submit", f"{node.name} may submit jobs and cancel them: the chain can go on.")
        if node.cancel:
            yield Finding(
                "warning", "submit", f"{node.name} could not cancel a job: {node.cancel}.", "Ask for the reason."
            )
    elif node.submit is not None and _LIMIT.search(node.submit):
        what = f"{node.name} may submit, but your limit was met just now ({node.submit})."
        yield Finding("unknown", "submit", what, "Ask again when fewer of your jobs are in the queue.")
    elif node.submit is not None:
        by = next((beat.name for beat in here.beats if beat.usable and beat.name != "scrontab"), "the login hook")
        what = f"{node.name} may not submit jobs ({node.submit}): neither a chain nor a scrontab can."
        ahead = "Let this machine submit a day's runs ahead: " + command("start", options=("--via", "login"))
        fix = ahead + f", and let {by} call " + command("tick")
        yield Finding("error", "submit", what, fix)


def _has_python(node: Node, here: Here) -> Iterator[Finding]:
    if node.python:
        what = f"{node.name} cannot run {here.python}: {node.python}."
        yield Finding("error", "python", what, "Install cronhpc where nodes see it: deploy/install --prefix DIR")
    elif node.python is not None:
        yield Finding("fine", "python", f"{node.name} runs {here.python}.")


def _agrees(node: Node, here: Here) -> Iterator[Finding]:
    if node.clock is not None:
        skew = abs(node.clock)
        word = "ahead of" if node.clock > 0 else "behind"
        if skew <= _SKEW:
            yield Finding("fine", "clock", f"{node.name} and the controller agree about the time.")
        else:
            what = f"the clock of {node.name} is {skew:.0f} s {word} the controller's."
            level = "error" if skew >= _SKEW_BAD else "warning"
            yield Finding(level, "clock", what, "Tell the administrators; links stay on the safe side of it.")
    if node.tzdata is not None and node.tzdata != here.tzdata:
        what = f"{node.name} has tzdata {node.tzdata or 'nowhere'}, this machine {here.tzdata or 'nowhere'}."
        yield Finding("warning", "zones", what, "Put the package tzdata where cronhpc is installed: one for both.")
    if node.umask is not None and node.umask & (_GROUP_WRITES | _OTHERS_WRITE) != here.umask & (
        _GROUP_WRITES | _OTHERS_WRITE
    ):
        yield Finding("advice", "umask", f"{node.name} has umask {node.umask:03o}, this machine {here.umask:03o}.", "")


def of_files(nodes: Sequence[Node]) -> Iterator[Finding]:
    """How all that looked, this machine among them, get on with one folder."""
    looked = [node for node in nodes if node.disk is not None]
    for node in looked:
        if node.disk:
            what = f"{node.name} cannot work on the cron directory: {node.disk}."
            yield Finding("error", "files", what, "Choose a folder that nodes see: --dir, or CRONHPC_DIR.")
    well = [node for node in looked if not node.disk]
    if not well:
        return
    names = ", ".join(node.name for node in well)
    raced, created, linked = (_by_several(well, each) for each in ("tried", "created", "linked"))
    if not any(node.created for node in well) or not any(node.linked for node in well):
        what = f"of {names}, none could create and link files as claims are made."
        yield Finding("error", "files", what, "Choose a folder on another file system: --dir, or CRONHPC_DIR.")
    elif created or linked:
        what = (
            f"of {names}, several created the same file in {len(created)} of {len(raced)} races and linked it in "
            f"{len(linked)}; each time it should have been one."
        )
        fix = "Do not use this file system for the cron directory: a slot could run twice."
        yield Finding("error", "files", what, fix)
    elif raced:
        what = f"of {names}, one alone could create and link each of {len(raced)} files: claims are safe there."
        yield Finding("fine", "files", what)
    elif len(well) > 1:
        what = f"{names} never raced for one file, so whether one alone can create it was not tried."
        yield Finding("unknown", "files", what, "Try again, when nodes are free: " + _SUBMIT)


def _by_several(nodes: Sequence[Node], what: str) -> set[int]:
    seen = Counter(number for node in nodes for number in set(getattr(node, what)))
    return {number for number, times in seen.items() if times > 1}
