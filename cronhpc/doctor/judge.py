"""What `doctor` says, and when: of each fact the sentence, its level and its fix; pure."""

from __future__ import annotations

from collections import Counter
from enum import Enum, unique
from typing import TYPE_CHECKING

from cronhpc.batch.slurm.text import at_limit
from cronhpc.core.chain import misfit
from cronhpc.core.model import Job, Problem, Settings, Way, command
from cronhpc.core.model.site import Cluster, Disk, Finding, Level, Limit, Partition, Reach
from cronhpc.core.policy import parse_policies
from cronhpc.cron.duration import format_duration
from cronhpc.cron.values import are, count, dataclass, replace
from cronhpc.script.advice import word
from cronhpc.script.sbatch_options import time_limit
from cronhpc.store.logs import Space, full, low

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


# --- all that doctor can say ------------------------------------------------------------------------------------------

# A row is called with the facts that its sentence names; `fix` and `level` where the facts decide those, too.

_SUBMIT = command("doctor", options=("--submit",))
_IF_STALE = command("start", options=("--if-stale",))
_ALONE = "Ask the administrators to leave it alone."
_TZDATA = "Put the package tzdata where cronhpc is installed"
_ELSEWHERE = "--dir, or CRONHPC_DIR."
_UMASK = "Put umask 022 into your login script"
_YOURS = "such scripts are not trusted"


# fmt: off
@unique
class Check(Enum):
    """Level, topic, sentence; the fix where it is always the same."""

    # --- the directory and its settings
    NO_DIRECTORY = "advice", "directory", "{root} {why} yet."
    BAD_SETTINGS = "error", "settings", "{place}: {why}"
    EMPTY_SETTINGS = "warning", "settings", "{path} {why}"
    REFUSED = "error", "trust", "{why}"
    WAY_OPEN = ("warning", "trust",
                "{why} So another folder could be put in the place of this one, and its scripts run as you.")
    TRUSTED = "fine", "trust", "nobody else can change the cron directory, or what is above it."

    # --- the disk
    DISK_UNSEEN = "error", "disk", "{root} cannot be looked at: {why}.", "Is it mounted?"
    DISK_READ_ONLY = "error", "disk", "{where}, mounted read-only.", "Choose another folder: " + _ELSEWHERE
    DISK_IN_MEMORY = ("error", "disk",
                      "{where}: in this machine's memory, so nodes do not see it, and it is gone after a restart.",
                      "Choose a folder on a shared disk: " + _ELSEWHERE)
    DISK_LOCAL = ("warning", "disk", "{where}, which looks like a disk of this machine alone.",
                  "See whether nodes have it: " + _SUBMIT + ".")
    DISK_FINE = "fine", "disk", "{where}{shared}."
    DISK_SOFT = ("advice", "disk", "it is mounted soft: when the server is slow, writing fails instead of waiting.",
                 "Nothing is lost: what could not be recorded is done again.")
    DISK_LOCKS = "fine", "disk", "mounted with {options}: no harm, cronhpc takes no locks there."
    FOLDER_CLOSED = "error", "disk", "{why}"
    ROOM_SCARCE = ("warning", "room", "{free:.1f} of {total:.0f} {unit} are free there.",
                   "Make room: " + command("clean") + "; and see your quota.")
    ROOM_NONE = ("error", "room", "no {unit} are free there: no tick can write, so nothing is submitted.",
                 "Make room: " + command("clean") + "; and see your quota.")
    ROOM_FINE = "fine", "room", "{free:.0f} GB are free there (your quota may say less)."
    INODES_SCARCE = "warning", "room", "{inodes} left there.", "Remove small files."
    PURGED = ("warning", "purge", "the site may remove what lies there ({why}): such places are often purged.",
              "Choose a place that is kept, such as your home or project folder.")

    # --- this machine
    UMASK_ALL = ("error", "umask", f"umask {{umask:03o}} lets everybody write what you make: {_YOURS}.", _UMASK + ".")
    UMASK_OWN_GROUP = ("warning", "umask",
                       (f"umask {{umask:03o}} lets the group {{group}} write what you make: {_YOURS}, though you "
                        "alone are in it."), "Or umask 022.")
    UMASK_GROUP = ("warning", "umask", f"umask {{umask:03o}} lets the group {{group}} write what you make: {_YOURS}.",
                   _UMASK + ", or chmod g-w each.")
    UMASK_FINE = "fine", "umask", "umask {umask:03o}: what you make only you can write."
    ZONES_FINE = "fine", "zones", "time zones are of tzdata {tzdata}; schedules follow {zone}."
    ZONES_NONE = ("error", "zones", "there is no time zone database here: only UTC can be used.",
                  _TZDATA + ", or have it installed.")
    BEATS = ("advice", "heartbeat", "a heartbeat from outside the chain could be {usable}{rest}.",
             "For when all jobs are lost at once: a line there that says " + _IF_STALE)
    NO_BEAT = ("advice", "heartbeat", "nothing here can call cronhpc from outside the chain{rest}.",
               "For when all jobs are lost at once: " + _IF_STALE + " in your login script.")
    PINGS = ("advice", "network", "the settings have pings: ticks need the way out to that address.",
             "Try it, from nodes too: " + command("doctor", options=("--submit", "--url", "https://example.org")))
    NO_WAY_OUT = "warning", "network", "the address given cannot be reached from here: {why}."
    WAY_OUT = "fine", "network", "the address given can be reached from here."

    # --- Slurm, asked from here
    RUNS_HERE = "fine", "backend", "runs are processes of this machine, as backend: local says."
    NO_SLURM = ("advice", "slurm", "no sbatch on PATH, or --backend local: runs are processes of this machine.",
                "On a cluster load Slurm's commands (module load slurm), then ask again.")
    HEARD = "fine", "batch system", "{title} answers."
    SILENT = ("error", "batch system", "{title} gives no answer: {why}.",
              "Ask again later; a chain that runs outlives this.")
    UNDONE = ("error", "batch system", "{how}, by which no job would be held: nothing is submitted.",
              "Take that out of it.")
    NOT_EXAMINED = ("unknown", "batch system",
                    "{title}: its limits, queues and nodes are not looked at; the rest is.")
    LEARNT = "fine", "batch system", "{title} {version}."
    NO_ANSWER = ("error", "slurm", "Slurm gives no answer: {why}.",
                 "Ask again later; a chain that runs outlives this.")
    ANSWERS = "fine", "slurm", "Slurm {version}, cluster {cluster}, answers."
    NO_TICK = "error", "ticks", "no tick comes: {why}.", "Put it back: " + command("start")
    NODES_MAY_NOT = ("error", "submit", "jobs may not submit here ({why}).",
                     "Let a login node submit a day's runs ahead: " + Way.LOGIN.start)
    CLOCK_UNKNOWN = "unknown", "clock", "the controller's clock could not be read."
    CLOCK_FINE = "fine", "clock", "this machine and the controller agree about the time."
    CLOCK_WRONG = ("warning", "clock", "this machine's clock is {skew} s {side} the controller's.",
                   "Tell the administrators. Schedules follow the clock of the node that a tick runs on.")
    SBATCH_UNANSWERED = "unknown", "sbatch", "sbatch --test-only gave no answer: {why}.", "Ask again later."
    SBATCH_REFUSES = ("error", "sbatch", "sbatch would not take the scheduler's job: {why}.",
                      "See sbatch: in cronhpc.yaml.")
    SBATCH_FULL = ("warning", "sbatch", "sbatch would not take the scheduler's job just now: {why}.",
                   "Jobs of yours fill the queue: start the scheduler when some have ended, and leave it two places.")
    SBATCH_TAKES = "fine", "sbatch", "sbatch would take the scheduler's job from here."

    # --- partitions, accounts, limits
    PARTITION_GONE = ("error", "partition",
                      "the settings name the partition {chosen}, which this cluster does not show you.")
    PARTITION_NONE = ("warning", "partition",
                      "no partition without GPUs is open to you: the scheduler's own jobs go to the default one.",
                      "Ask where short jobs of one CPU belong, and put sbatch: {partition: …}.")
    PARTITION_CHEAPER = ("warning", "partition",
                         "entries that name no partition go to {default}. The cheap one for CPUs is {best}, {facts}.")
    PARTITION_GPUS = ("warning", "partition",
                      "the scheduler's own jobs go to {name}, which has GPUs: they would be billed for nothing.",
                      "Name one without: sbatch: {partition: …} in cronhpc.yaml.")
    PARTITION_WHOLE = ("warning", "partition",
                       "partition {name} gives whole nodes: each link and small entry pays for one.",
                       "Ask for a partition where jobs share nodes.")
    PARTITION_DOWN = "warning", "partition", "partition {name} is not up: jobs wait.", "Wait, or name another."
    PARTITION_FINE = "fine", "partition", "small jobs go to {name}: {facts}."
    PARTITION_SHORT = ("error", "partition",
                       "partition {name} takes jobs of at most {most}; a link asks for {link}.")
    SUBMITTERS = ("warning", "submit",
                  "only {nodes} may submit to {name}: links run on compute nodes, and could not go on.",
                  "Try it for real: " + _SUBMIT + ".")
    DAEMON_MISFIT = "error", "daemon", "{why}"
    ACCOUNT_FOREIGN = ("error", "account",
                       "the settings name the account {chosen}, which is none of yours ({accounts}).")
    ACCOUNT_NEEDED = "error", "account", "jobs need an account here, and you have no default one."
    ACCOUNT_FINE = "fine", "account", "jobs are billed to {account}."
    LIMITS_NONE = "fine", "limits", "no limit on how many jobs you may queue."
    LIMITS_UNCOUNTED = "fine", "limits", "no accounting, so no limits on jobs."
    LIMITS_NO_CHAIN = ("error", "limits", "{limit}: a link could not submit its successor.",
                       "Let ticks come from outside: a crontab line, or " + command("daemon") + ".")
    LIMITS_NO_SPARE = ("warning", "limits", "{limit}: there is no room for the spare, nor for runs while a link runs.",
                       "Ask for a higher one, or let ticks come from outside.")
    LIMITS_FEW = ("warning", "limits",
                  "{limit}; the chain takes {chain}. Runs wait for a free place, and none is lost.",
                  "Ask for a higher limit if entries fall behind.")
    LIMITS_FINE = "fine", "limits", "{limit}; the chain takes {chain}."
    ENDS_FINE = "fine", "ends", "sacct tells how runs ended."
    ENDS_SILENT = ("unknown", "ends",
                   "accounting gives no answer: your accounts, limits on jobs, and how runs ended are not known.",
                   "Ask again later. Where it never answers, set defaults: {record: true} in cronhpc.yaml.")
    ENDS_UNKNOWN = "unknown", "ends", "whether there is accounting could not be read."
    ENDS_RECORDED = "fine", "ends", "no accounting here; runs write down how they ended (record: true)."
    ENDS_LOST = ("warning", "ends",
                 ("no accounting here, and the controller {forgets}, while ticks come every {often}: some ends "
                  "stay unknown."), "Let runs write their own end down.")
    REQUEUE = ("advice", "requeue", "JobRequeue=1: after a node failure Slurm runs a script again from its first line.",
               "Where that would harm, write: #SBATCH --no-requeue")
    KILL_WAIT = ("advice", "kill",
                 "KillWait is {seconds} s: so long has a cancelled job between SIGTERM and SIGKILL.",
                 "To write a checkpoint, warn earlier: kill: {switches: {NAME: {warn: USR1@5m}}}")

    # --- what else is at work
    SCHEDULER = "warning", "scheduler", "{why}"
    CHAIN_OTHER = "advice", "other chains", "your cron directory {place} is at work, too (jobs {ids})."
    CHAIN_LEFT = "warning", "other chains", "{place} is gone, and its scheduler goes on (jobs {ids})."
    CHAIN_UNKNOWN = ("advice", "other chains", "a cron directory of yours is at work (jobs {ids}); which is not known.",
                     "scontrol show job tells more.")
    CHAIN_BY_HAND = ("advice", "other chains",
                     "{place} submits itself for later: a hand-made scheduler (jobs {ids}).")
    CHAINS_UNKNOWN = ("unknown", "other chains", "what else of yours is in the queue is not known: {why}.",
                      "Ask again.")

    # --- the probe job, and the nodes that it ran on
    NOT_TRIED = ("unknown", "submit",
                 "whether compute nodes may submit jobs, and have cronhpc and this folder, was not tried.",
                 _SUBMIT + " runs a job of a minute that tries it.")
    PROBE_UNKNOWN = "unknown", "submit", "whether the probe job was taken is not known: {why}.", "Ask again."
    PROBE_REFUSED = "error", "submit", "the probe job was not taken: {why}.", "See sbatch: in cronhpc.yaml."
    PROBE_WAITS = ("unknown", "submit", "the probe job {job} did not start within {seconds:.0f} s, and was cancelled.",
                   "Give it longer: " + command("doctor", options=("--submit", "--wait", "1h")))
    OPTIONS_UNREAD = "unknown", "options", "what a submission looks like here is not known: {why}.", "Ask again."
    OPTIONS_LOST = "unknown", "options", "a job that was submitted held is not in the queue.", "Ask again later."
    HOLD_DROPPED = "error", "options", "this site drops a job's hold: runs begin before they are written down.", _ALONE
    BEGIN_DROPPED = ("warning", "options",
                     "this site drops when a job is to begin: links and runs get it once more.", _ALONE)
    COMMENT_REPLACED = ("warning", "options",
                        "this site replaces a job's comment: a script's own is lost; jobs are known by recorded ids.")
    COMMENT_LONGER = "advice", "options", "this site adds to a job's comment, also to a script's own."
    NAME_CHANGED = "warning", "options", "this site changes a job's name: name the entry, not the job, in a switch."
    OPTIONS_KEPT = "fine", "options", "this site keeps a job's hold, time to begin, comment and name as they are given."
    NODE_SUBMITS = "fine", "submit", "{node} may submit jobs and cancel them: the chain can go on."
    NODE_CANNOT_CANCEL = "warning", "submit", "{node} could not cancel a job: {why}.", "Ask for the reason."
    NODE_AT_LIMIT = ("unknown", "submit", "{node} may submit, but your limit was met just now ({why}).",
                     "Ask again when fewer of your jobs are in the queue.")
    NODE_REFUSED = ("error", "submit", "{node} may not submit jobs ({why}): neither a chain nor a scrontab can.")
    NODE_NO_PYTHON = ("error", "python", "{node} cannot run {python}: {why}.",
                      "Install cronhpc where nodes see it: deploy/install --prefix DIR")
    NODE_PYTHON = "fine", "python", "{node} runs {python}."
    NODE_CLOCK_FINE = "fine", "clock", "{node} and the controller agree about the time."
    NODE_CLOCK_WRONG = ("warning", "clock", "the clock of {node} is {skew:.0f} s {side} the controller's.",
                        "Tell the administrators; links stay on the safe side of it.")
    NODE_ZONES = ("warning", "zones", "{node} has tzdata {there}, this machine {here}.", _TZDATA + ": one for both.")
    NODE_UMASK = "advice", "umask", "{node} has umask {there:03o}, this machine {here:03o}."
    NODE_NO_WAY_OUT = ("warning", "network", "the address given cannot be reached from {node}: {why}.",
                       "Let a daemon on a login node send pings.")
    NODE_WAY_OUT = "fine", "network", "the address given can be reached from {node}."
    FILES_BROKEN = ("error", "files", "{node} cannot work on the cron directory: {why}.",
                    "Choose a folder that nodes see: " + _ELSEWHERE)
    FILES_NO_CLAIMS = ("error", "files", "of {nodes}, none could create and link files as claims are made.",
                       "Choose a folder on another file system: " + _ELSEWHERE)
    FILES_TWICE = ("error", "files",
                   ("of {nodes}, several created the same file in {created} of {raced} races and linked it in "
                    "{linked}; each time it should have been one."),
                   "Do not use this file system for the cron directory: a slot could run twice.")
    FILES_SAFE = ("fine", "files",
                  "of {nodes}, one alone could create and link each of {raced} files: claims are safe there.")
    FILES_NOT_RACED = ("unknown", "files",
                       "{nodes} never raced for one file, so whether one alone can create it was not tried.",
                       "Try again, when nodes are free: " + _SUBMIT)
    # fmt: on

    def __init__(self, level: str, topic: str, sentence: str, fix: str = "") -> None:
        self.level, self.topic, self.sentence, self.fix = Level(level), topic, sentence, fix

    def __call__(
        self, *, level: Level | None = None, fix: str = "", put: Sequence[tuple[str, str]] = (), **facts: object
    ) -> Finding:
        """The finding; `put`: settings (dotted key, value) that would fix it. Raises KeyError for a fact left out."""
        return Finding(level or self.level, self.topic, self.sentence.format(**facts), fix or self.fix, tuple(put))


# --- which of them is said --------------------------------------------------------------------------------------------

_LINK_JOBS = 3  # the running link, its successor, the spare
_ROOM = 2  # runs that there should be room for beside them
_SKEW, _SKEW_BAD = 5, 120  # seconds; munge refuses messages that are 300 s old
_GRACE = 30
_GIB = 1 << 30
_OTHERS_WRITE, _GROUP_WRITES = 0o002, 0o020


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
    clock: int | None = None  # seconds that it is ahead of the controller
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
    if by_daemon or not any(each.level is Level.ERROR for each in partition):
        yield from _by_daemon(cluster, settings, driven=by_daemon)
    if cluster.limits is None:
        yield Check.ENDS_SILENT()
    else:
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
    level = Level.ERROR if skew >= _SKEW_BAD else Level.WARNING
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
        where = f"{default.name}, {_offer_words(default)}" if default else "nowhere: there is no default partition"
        yield Check.PARTITION_CHEAPER(default=where, best=best.name, facts=_offer_words(best), put=put)
    else:
        yield from _chosen(best, settings)


def _offer_words(offer: Partition) -> str:
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
        yield Check.PARTITION_FINE(name=offer.name, facts=_offer_words(offer))
    link = _link_time(settings)
    if offer.time_limit is not None and link is not None and offer.time_limit < link:
        put = (("scheduler.sbatch.time", str(max(1, offer.time_limit // 60))),)
        most = format_duration(offer.time_limit)
        yield Check.PARTITION_SHORT(name=offer.name, most=most, link=format_duration(link), put=put)
    if offer.submitters:
        yield Check.SUBMITTERS(nodes=offer.submitters, name=offer.name)


def _by_daemon(cluster: Cluster, settings: Settings, *, driven: bool) -> Iterator[Finding]:
    mismatch = misfit(cluster.offers, settings)
    if mismatch is None:
        return
    if driven:
        put = (("scheduler.interval", mismatch.interval),) if mismatch.interval else ()
        yield Check.DAEMON_MISFIT(why=mismatch.what, fix=mismatch.fix, put=put)
    else:  # its interval is right for short links
        before = "Before " + Way.DAEMON.start + ": " + mismatch.fix
        yield Check.DAEMON_MISFIT(level=Level.ADVICE, why=mismatch.what, fix=before)


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
    if parse_policies(settings.defaults)[0].record:
        return Check.ENDS_RECORDED()
    kept = f"forgets an ended job after {format_duration(age)}" if age else "forgets ended jobs"
    often = format_duration(settings.interval)
    return Check.ENDS_LOST(forgets=kept, often=often, put=(("defaults.record", "true"),))


# --- the disk ------------------------------------------------------------------------------------------------------


def of_disk(disk: Disk, *, on_nodes: bool = False, probes: bool = True, alone: bool = False) -> Iterator[Finding]:
    """What the cron directory lies on.

    `on_nodes`: nodes have it, as a probe there has shown; `probes`: there are such; `alone`: no node is to have it.
    """
    kind = disk.kind or "a file system of unknown kind"
    where = f"{disk.path} is on {kind} ({disk.mount})" if disk.mount else f"{disk.path} is on {kind}"
    if "ro" in disk.options:
        yield Check.DISK_READ_ONLY(where=where)
    elif disk.reach is Reach.MEMORY and not on_nodes:
        yield Check.DISK_IN_MEMORY(where=where)
    elif disk.reach is Reach.LOCAL and not (on_nodes or alone):
        fix = "" if probes else f"See whether a job finds it: ls -d {word(disk.path)}"
        yield Check.DISK_LOCAL(where=where, fix=fix)
    else:
        yield Check.DISK_FINE(where=where, shared=", shared" if disk.reach is Reach.SHARED else "")
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
    space = Space(disk.bytes_free, disk.bytes_total, disk.inodes_free, disk.inodes_total)
    few_bytes, few_inodes = low(space)
    if full(space):
        yield Check.ROOM_NONE(unit="bytes" if full(replace(space, inodes=0)) else "inodes")
        return
    if few_bytes:
        size, unit = (_GIB, "GB") if disk.bytes_total >= _GIB else (_GIB // 1024, "MB")
        yield Check.ROOM_SCARCE(free=disk.bytes_free / size, total=disk.bytes_total / size, unit=unit)
    else:
        yield Check.ROOM_FINE(free=disk.bytes_free / _GIB)
    if few_inodes:
        yield Check.INODES_SCARCE(inodes=are(disk.inodes_free, "inode"))


def of_rooms(closed: Iterable[Problem]) -> Iterator[Finding]:
    """Folders of the cron directory in which a tick could write nothing."""
    yield from (Check.FOLDER_CLOSED(why=each.what, fix=each.fix) for each in closed)


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


def of_submission(listed: Job | None, *, name: str, comment: str, begin: int) -> Iterator[Finding]:
    """What a site makes of a held submission: a plugin of the controller, or a wrapper, may change all of it.

    `listed`: the job as the queue shows it; `name`, `comment`, `begin` (epoch seconds) as they were asked for.
    """
    if listed is None:
        yield Check.OPTIONS_LOST()
        return
    replaced = comment not in listed.comment
    changed = {
        Check.HOLD_DROPPED: not listed.held,
        Check.BEGIN_DROPPED: (listed.start or 0) < begin - _SKEW_BAD,
        Check.COMMENT_REPLACED: replaced,
        Check.COMMENT_LONGER: not replaced and comment != listed.comment,
        Check.NAME_CHANGED: listed.name != name,
    }
    yield from (check() for check, is_so in changed.items() if is_so)
    if not any(changed.values()):
        yield Check.OPTIONS_KEPT()


def _submits(node: Node, here: Here) -> Iterator[Finding]:
    if node.submit == "":
        yield Check.NODE_SUBMITS(node=node.name)
        if node.cancel:
            yield Check.NODE_CANNOT_CANCEL(node=node.name, why=node.cancel)
    elif node.submit is not None and at_limit(node.submit):
        yield Check.NODE_AT_LIMIT(node=node.name, why=node.submit)
    elif node.submit is not None:
        by = next((beat.name for beat in here.beats if beat.usable and beat.name != "scrontab"), "the login hook")
        ahead = "Let this machine submit a day's runs ahead: " + Way.LOGIN.start
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


def _by_several(nodes: Sequence[Node], field: str) -> set[int]:
    counts = Counter(number for node in nodes for number in set(getattr(node, field)))
    return {number for number, times in counts.items() if times > 1}
