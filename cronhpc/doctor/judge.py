"""From facts to findings: what a cluster, a disk, this machine and the nodes of a probe amount to. Pure.

look.py gathers the facts; checks.py has the sentences.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from cronhpc.core.chain import misfit
from cronhpc.core.model import Job, Problem, Settings, command
from cronhpc.cron.duration import format_duration
from cronhpc.cron.values import dataclass
from cronhpc.cron.words import are, count
from cronhpc.doctor.checks import Check
from cronhpc.script.sbatch_values import time_limit
from cronhpc.store.logs import Space, low

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cronhpc.core.model.site import Cluster, Disk, Finding, Limit, Partition

_LINK_JOBS = 3  # the running link, its successor, the spare
_ROOM = 2  # runs that there should be room for beside them
_SKEW, _SKEW_BAD = 5, 120  # seconds; munge refuses messages that are 300 s old
_GRACE = 30
_GIB = 1 << 30
_OTHERS_WRITE, _GROUP_WRITES = 0o002, 0o020
_LIMIT = re.compile(r"(?:QOS|Assoc)\w*Limit|submit limit|temporarily unavailable|queue full", re.IGNORECASE)


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


# --- the cluster ---------------------------------------------------------------------------------------------------


def of_cluster(
    cluster: Cluster, settings: Settings, *, asked: int, answered: int, by_daemon: bool = False
) -> Iterator[Finding]:
    """All that Slurm told; `asked` and `answered`: this machine's clock before and after (epoch).

    `by_daemon`: `start --daemon` was called here.
    """
    site = cluster.site
    yield Check.ANSWERS(version=site.version or "of an unknown version", cluster=site.cluster or "without a name")
    yield _clock(cluster.clock, asked, answered)
    partition = list(_partition(cluster, settings))
    yield from partition
    if by_daemon or not any(each.level == "error" for each in partition):
        yield from _by_daemon(cluster, settings, driven=by_daemon)
    yield from _account(cluster, settings)
    yield _limits(cluster.limits, accounting=site.accounting)
    yield _ends(cluster, settings)
    if cluster.requeue:
        yield Check.REQUEUE()
    if cluster.kill_wait is not None and cluster.kill_wait < _GRACE:
        yield Check.KILL_WAIT(seconds=cluster.kill_wait)


def _clock(clock: int | None, asked: int, answered: int) -> Finding:
    if clock is None:
        return Check.CLOCK_UNKNOWN()
    ahead = asked - clock if clock < asked else -max(clock - answered, 0)
    return _skewed(ahead, Check.CLOCK_FINE, Check.CLOCK_WRONG)


def _skewed(ahead: float, fine: Check, wrong: Check, node: str = "") -> Finding:
    """`ahead`: seconds that a clock is ahead of the controller's."""
    skew = abs(ahead)
    if skew <= _SKEW:
        return fine(node=node)
    level = "error" if skew >= _SKEW_BAD else "warning"
    return wrong(level=level, node=node, skew=skew, side="ahead of" if ahead > 0 else "behind")


def cheap(cluster: Cluster, account: str) -> Partition | None:
    """The partition for housekeeping: without GPUs, open to the account, nodes shared, cheap, the default if equal."""
    able = [each for each in cluster.offers if not each.gpus and (not each.accounts or account in each.accounts)]
    return min(
        able,
        key=lambda each: (not each.up, each.whole_nodes, each.price or 0.0, not each.default, -each.nodes, each.name),
        default=None,
    )


def _partition(cluster: Cluster, settings: Settings) -> Iterator[Finding]:
    names = {each.name: each for each in cluster.offers}
    chosen = dict(settings.link_sbatch).get("partition") or dict(settings.sbatch).get("partition", "")
    best = cheap(cluster, dict(settings.sbatch).get("account", "") or cluster.site.account)
    put = (("sbatch.partition", best.name),) if best else ()
    if chosen and any(part not in names for part in chosen.split(",")):
        yield Check.PARTITION_GONE(chosen=chosen, fix=f"There are {', '.join(sorted(names)) or 'none'}.", put=put)
    elif chosen:
        yield from _chosen(names[chosen.split(",")[0]], settings)
    elif best is None:
        yield Check.PARTITION_NONE()
    elif not best.default:
        default = next((each for each in cluster.offers if each.default), None)
        where = f"{default.name}, {_words(default)}" if default else "nowhere: there is no default partition"
        yield Check.PARTITION_CHEAPER(default=where, best=best.name, facts=_words(best), put=put)
    else:
        yield from _chosen(best, settings)


def _words(offer: Partition) -> str:
    limit = f"at most {format_duration(offer.time_limit)}" if offer.time_limit else "no time limit"
    gpus = "with GPUs, " if offer.gpus else ""
    whole = ", whole nodes only" if offer.whole_nodes else ""
    return f"{gpus}{count(offer.nodes, 'node')}, {limit}{whole}{'' if offer.up else ', not up just now'}"


def _chosen(offer: Partition, settings: Settings) -> Iterator[Finding]:
    if offer.gpus:
        yield Check.PARTITION_GPUS(name=offer.name)
    elif offer.whole_nodes:
        yield Check.PARTITION_WHOLE(name=offer.name)
    elif not offer.up:
        yield Check.PARTITION_DOWN(name=offer.name)
    else:
        yield Check.PARTITION_FINE(name=offer.name, facts=_words(offer))
    link = _link_time(settings)
    if offer.time_limit is not None and link is not None and offer.time_limit < link:
        put = (("scheduler.sbatch.time", str(max(1, offer.time_limit // 60))),)
        most = format_duration(offer.time_limit)
        yield Check.PARTITION_SHORT(name=offer.name, most=most, link=format_duration(link), put=put)
    if offer.submitters:
        yield Check.SUBMITTERS(nodes=offer.submitters, name=offer.name)


def _by_daemon(cluster: Cluster, settings: Settings, *, driven: bool) -> Iterator[Finding]:
    found = misfit(cluster.offers, settings)
    if found is None:
        return
    if driven:
        put = (("scheduler.interval", found.interval),) if found.interval else ()
        yield Check.DAEMON_MISFIT(why=found.what, fix=found.fix, put=put)
    else:  # its interval is right for short links
        before = "Before " + command("start", options=("--daemon",)) + ": " + found.fix
        yield Check.DAEMON_MISFIT(level="advice", why=found.what, fix=before)


def _link_time(settings: Settings) -> int | None:
    try:
        return time_limit(dict(settings.link_sbatch).get("time", ""))
    except ValueError:
        return None


def _account(cluster: Cluster, settings: Settings) -> Iterator[Finding]:
    site, chosen = cluster.site, dict(settings.sbatch).get("account", "")
    if chosen and site.accounts and chosen not in site.accounts:
        put = (("sbatch.account", site.account or site.accounts[0]),)
        yield Check.ACCOUNT_FOREIGN(chosen=chosen, accounts=", ".join(site.accounts), put=put)
    elif cluster.accounts_enforced and not (chosen or site.account):
        fix = "" if site.accounts else "Ask for an account; then sbatch: {account: …} in cronhpc.yaml."
        yield Check.ACCOUNT_NEEDED(fix=fix, put=[("sbatch.account", each) for each in site.accounts[:1]])
    elif chosen or site.account:
        yield Check.ACCOUNT_FINE(account=chosen or site.account)


def _limits(limits: Sequence[Limit], *, accounting: bool | None) -> Finding:
    least = min(limits, key=lambda each: each.submit, default=None)
    if least is None:
        return Check.LIMITS_NONE() if accounting else Check.LIMITS_UNCOUNTED()
    enough_for = {Check.LIMITS_FINE: _LINK_JOBS + _ROOM, Check.LIMITS_FEW: _LINK_JOBS, Check.LIMITS_NO_SPARE: 2}
    check = next((each for each, jobs in enough_for.items() if least.submit >= jobs), Check.LIMITS_NO_CHAIN)
    return check(limit=f"{least.whose} lets you have {count(least.submit, 'job')} in the queue", chain=_LINK_JOBS)


def _ends(cluster: Cluster, settings: Settings) -> Finding:
    """How anybody learns how a run ended."""
    age = cluster.site.min_job_age
    if cluster.site.accounting:
        return Check.ENDS_FINE()
    if cluster.site.accounting is None:
        return Check.ENDS_UNKNOWN()
    if any(name == "record" and value == "true" for name, value, _ in settings.defaults):
        return Check.ENDS_RECORDED()
    kept = f"forgets an ended job after {format_duration(age)}" if age else "forgets ended jobs"
    often = format_duration(settings.interval)
    return Check.ENDS_LOST(forgets=kept, often=often, put=(("defaults.record", "true"),))


# --- the disk ------------------------------------------------------------------------------------------------------


def of_disk(disk: Disk, *, seen: bool = False, probes: bool = True, alone: bool = False) -> Iterator[Finding]:
    """What the cron directory lies on.

    `seen`: nodes have it, as a probe there has shown; `probes`: there are such; `alone`: no node is to have it.
    """
    kind = disk.kind or "a file system of unknown kind"
    where = f"{disk.path} is on {kind} ({disk.mount})" if disk.mount else f"{disk.path} is on {kind}"
    if "ro" in disk.options:
        yield Check.DISK_READ_ONLY(where=where)
    elif disk.reach == "memory" and not seen:
        yield Check.DISK_IN_MEMORY(where=where)
    elif disk.reach == "local" and not (seen or alone):
        yield Check.DISK_LOCAL(where=where, fix="" if probes else f"See whether a job finds it: ls -d {disk.path}")
    else:
        yield Check.DISK_FINE(where=where, shared=", shared" if disk.reach == "shared" else "")
    loose = [
        each for each in disk.options if each in {"nolock", "localflock", "soft"} or each.startswith("local_lock=")
    ]
    if "soft" in loose:
        yield Check.DISK_SOFT()
    elif loose and loose != ["local_lock=none"]:
        yield Check.DISK_LOCKS(options=", ".join(loose))
    yield from _room(disk)
    if disk.purged:
        yield Check.PURGED(why=disk.purged)


def _room(disk: Disk) -> Iterator[Finding]:
    few_bytes, few_inodes = low(Space(disk.bytes_free, disk.bytes_total, disk.inodes_free, disk.inodes_total))
    if few_bytes:
        size, unit = (_GIB, "GB") if disk.bytes_total >= _GIB else (_GIB // 1024, "MB")
        yield Check.ROOM_SCARCE(free=disk.bytes_free / size, total=disk.bytes_total / size, unit=unit)
    else:
        yield Check.ROOM_FINE(free=disk.bytes_free / _GIB)
    if few_inodes:
        yield Check.INODES_SCARCE(inodes=are(disk.inodes_free, "inode"))


def of_rooms(closed: Iterable[str]) -> Iterator[Finding]:
    """Folders of the cron directory in which a tick could write nothing."""
    yield from (Check.FOLDER_CLOSED(place=place) for place in closed)


def of_trust(refused: Problem | None, way: Problem | None) -> Iterator[Finding]:
    """`refused`: why the directory itself is not trusted; `way`: who could put another in its place."""
    if refused is not None:
        yield Check.REFUSED(why=refused.what, fix=refused.fix)
    if way is not None:
        yield Check.WAY_OPEN(why=way.what, fix=way.fix)
    if refused is None and way is None:
        yield Check.TRUSTED()


# --- this machine --------------------------------------------------------------------------------------------------


def of_machine(here: Here, *, needs_network: bool) -> Iterator[Finding]:
    """umask, interpreter, time zones, and what could call ticks from outside."""
    yield _umask(here)
    yield Check.ZONES_FINE(tzdata=here.tzdata, zone=here.zone) if here.tzdata else Check.ZONES_NONE()
    usable = [beat.name for beat in here.beats if beat.usable]
    rest = ", ".join(f"{beat.name} ({beat.detail})" for beat in here.beats if not beat.usable and beat.detail)
    if usable:
        yield Check.BEATS(usable=" or ".join(usable), rest=f"; not: {rest}" if rest else "")
    else:
        yield Check.NO_BEAT(rest=f": {rest}" if rest else "")
    if needs_network:
        yield Check.PINGS()


def _umask(here: Here) -> Finding:
    if here.umask & _OTHERS_WRITE == 0:
        return Check.UMASK_ALL(umask=here.umask)
    if here.umask & _GROUP_WRITES:
        return Check.UMASK_FINE(umask=here.umask)
    if here.group_is_private:
        return Check.UMASK_OWN_GROUP(umask=here.umask, group=here.group, put=(("trust.group", here.group),))
    return Check.UMASK_GROUP(umask=here.umask, group=here.group)


# --- compute nodes -------------------------------------------------------------------------------------------------


def of_nodes(nodes: Sequence[Node], here: Here) -> Iterator[Finding]:
    """What the probe job found. No node: it did not come to run."""
    for node in nodes:
        yield from _submits(node, here)
        if node.python:
            yield Check.NODE_NO_PYTHON(node=node.name, python=here.python, why=node.python)
        elif node.python is not None:
            yield Check.NODE_PYTHON(node=node.name, python=here.python)
        yield from _agrees(node, here)
        if node.network:
            yield Check.NODE_NO_WAY_OUT(node=node.name, why=node.network)
        elif node.network is not None:
            yield Check.NODE_WAY_OUT(node=node.name)


def of_submission(seen: Job | None, *, name: str, comment: str, begin: int) -> Iterator[Finding]:
    """What a site makes of a held submission: a plugin of the controller, or a wrapper, may change all of it.

    `seen`: the job as the queue shows it; `name`, `comment`, `begin` (epoch seconds) as they were asked for.
    """
    if seen is None:
        yield Check.OPTIONS_LOST()
        return
    replaced = comment not in seen.comment
    changed = {
        Check.HOLD_DROPPED: not seen.held,
        Check.BEGIN_DROPPED: (seen.start or 0) < begin - _SKEW_BAD,
        Check.COMMENT_REPLACED: replaced,
        Check.COMMENT_LONGER: not replaced and comment != seen.comment,
        Check.NAME_CHANGED: seen.name != name,
    }
    yield from (check() for check, is_so in changed.items() if is_so)
    if not any(changed.values()):
        yield Check.OPTIONS_KEPT()


def _submits(node: Node, here: Here) -> Iterator[Finding]:
    if node.submit == "":
        yield Check.NODE_SUBMITS(node=node.name)
        if node.cancel:
            yield Check.NODE_CANNOT_CANCEL(node=node.name, why=node.cancel)
    elif node.submit is not None and _LIMIT.search(node.submit):
        yield Check.NODE_AT_LIMIT(node=node.name, why=node.submit)
    elif node.submit is not None:
        by = next((beat.name for beat in here.beats if beat.usable and beat.name != "scrontab"), "the login hook")
        ahead = "Let this machine submit a day's runs ahead: " + command("start", options=("--via", "login"))
        fix = ahead + f", and let {by} call " + command("tick")
        yield Check.NODE_REFUSED(node=node.name, why=node.submit, fix=fix)


def _agrees(node: Node, here: Here) -> Iterator[Finding]:
    if node.clock is not None:
        yield _skewed(node.clock, Check.NODE_CLOCK_FINE, Check.NODE_CLOCK_WRONG, node.name)
    if node.tzdata is not None and node.tzdata != here.tzdata:
        yield Check.NODE_ZONES(node=node.name, there=node.tzdata or "nowhere", here=here.tzdata or "nowhere")
    others = _GROUP_WRITES | _OTHERS_WRITE
    if node.umask is not None and node.umask & others != here.umask & others:
        yield Check.NODE_UMASK(node=node.name, there=node.umask, here=here.umask)


def of_files(nodes: Sequence[Node]) -> Iterator[Finding]:
    """How all that looked, this machine among them, get on with one folder."""
    looked = [node for node in nodes if node.disk is not None]
    yield from (Check.FILES_BROKEN(node=node.name, why=node.disk) for node in looked if node.disk)
    well = [node for node in looked if not node.disk]
    if not well:
        return
    names = ", ".join(node.name for node in well)
    raced, created, linked = (_by_several(well, each) for each in ("tried", "created", "linked"))
    if not any(node.created for node in well) or not any(node.linked for node in well):
        yield Check.FILES_NO_CLAIMS(nodes=names)
    elif created or linked:
        yield Check.FILES_TWICE(nodes=names, created=len(created), raced=len(raced), linked=len(linked))
    elif raced:
        yield Check.FILES_SAFE(nodes=names, raced=len(raced))
    elif len(well) > 1:
        yield Check.FILES_NOT_RACED(nodes=names)


def _by_several(nodes: Sequence[Node], what: str) -> set[int]:
    seen = Counter(number for node in nodes for number in set(getattr(node, what)))
    return {number for number, times in seen.items() if times > 1}
