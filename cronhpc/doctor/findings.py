"""What `doctor` says of a site, from facts that others have gathered: the cluster's part. Pure.

diagnosis.py has the disk, the machine and the nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.core.model import command
from cronhpc.core.model.site import Finding
from cronhpc.core.resident_fit import misfit
from cronhpc.cron.duration import format_duration
from cronhpc.cron.words import count
from cronhpc.script.sbatch_values import time_limit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cronhpc.core.model import Settings
    from cronhpc.core.model.site import Cluster, Limit, Partition


_LINK_JOBS = 3  # the running link, its successor, the spare
_ROOM = 2  # runs that there should be room for beside them
_SKEW, _SKEW_BAD = 5, 120  # seconds; munge refuses messages that are 300 s old
_GRACE = 30


def of_cluster(
    cluster: Cluster, settings: Settings, *, asked: int, answered: int, by_daemon: bool = False
) -> Iterator[Finding]:
    """All that Slurm told; `asked` and `answered`: this machine's clock before and after (epoch).

    `by_daemon`: `start --daemon` was called here.
    """
    site = cluster.site
    what = f"Slurm {site.version or 'of an unknown version'}, cluster {site.cluster or 'without a name'}, answers."
    yield Finding("fine", "slurm", what)
    yield from _clock(cluster.clock, asked, answered)
    partition = list(_partition(cluster, settings))
    yield from partition
    if by_daemon or not any(each.level == "error" for each in partition):
        yield from _by_daemon(cluster, settings, driven=by_daemon)
    yield from _account(cluster, settings)
    yield from _limits(cluster.limits, accounting=site.accounting)
    yield from _ends(cluster, settings)
    yield from _rules(cluster)


def _clock(clock: int | None, asked: int, answered: int) -> Iterator[Finding]:
    if clock is None:
        yield Finding("unknown", "clock", "the controller's clock could not be read.")
        return
    skew = asked - clock if clock < asked else max(clock - answered, 0)
    if skew <= _SKEW:
        yield Finding("fine", "clock", "this machine and the controller agree about the time.")
        return
    word = "ahead of" if clock < asked else "behind"
    what = f"this machine's clock is {skew} s {word} the controller's."
    fix = "Tell the administrators. Schedules follow the clock of the node that a tick runs on."
    yield Finding("error" if skew >= _SKEW_BAD else "warning", "clock", what, fix)


# --- partitions ----------------------------------------------------------------------------------------------------


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
    if chosen and any(part not in names for part in chosen.split(",")):
        put = (("sbatch.partition", best.name),) if best else ()
        what = f"the settings name the partition {chosen}, which this cluster does not show you."
        yield Finding("error", "partition", what, f"There are {', '.join(sorted(names)) or 'none'}.", put)
    elif chosen:
        yield from _chosen(names[chosen.split(",")[0]], settings)
    elif best is None:
        what = "no partition without GPUs is open to you: the scheduler's own jobs go to the default one."
        fix = "Ask where short jobs of one CPU belong, and put sbatch: {partition: …}."
        yield Finding("warning", "partition", what, fix)
    elif not best.default:
        default = next((each for each in cluster.offers if each.default), None)
        where = f"{default.name}, {_words(default)}" if default else "nowhere: there is no default partition"
        what = f"entries that name no partition go to {where}. The cheap one for CPUs is {best.name}, {_words(best)}."
        yield Finding("warning", "partition", what, "", (("sbatch.partition", best.name),))
    else:
        yield from _chosen(best, settings)


def _words(offer: Partition) -> str:
    limit = f"at most {format_duration(offer.time_limit)}" if offer.time_limit else "no time limit"
    gpus = "with GPUs, " if offer.gpus else ""
    whole = ", whole nodes only" if offer.whole_nodes else ""
    return f"{gpus}{count(offer.nodes, 'node')}, {limit}{whole}{'' if offer.up else ', not up just now'}"


def _chosen(offer: Partition, settings: Settings) -> Iterator[Finding]:
    if offer.gpus:
        what = f"the scheduler's own jobs go to {offer.name}, which has GPUs: they would be billed for nothing."
        yield Finding("warning", "partition", what, "Name one without: sbatch: {partition: …} in cronhpc.yaml.")
    elif offer.whole_nodes:
        what = f"partition {offer.name} gives whole nodes: each link and small entry pays for one."
        yield Finding("warning", "partition", what, "Ask for a partition where jobs share nodes.")
    elif not offer.up:
        yield Finding("warning", "partition", f"partition {offer.name} is not up: jobs wait.", "Wait, or name another.")
    else:
        yield Finding("fine", "partition", f"small jobs go to {offer.name}: {_words(offer)}.")
    link = _link_time(settings)
    if offer.time_limit is not None and link is not None and offer.time_limit < link:
        put = (("scheduler.sbatch.time", str(max(1, offer.time_limit // 60))),)
        most = format_duration(offer.time_limit)
        what = f"partition {offer.name} takes jobs of at most {most}; a link asks for {format_duration(link)}."
        yield Finding("error", "partition", what, "", put)
    if offer.submitters:
        what = f"only {offer.submitters} may submit to {offer.name}: links run on compute nodes, and could not go on."
        fix = "Try it for real: " + command("doctor", options=("--submit",)) + "."
        yield Finding("warning", "submit", what, fix)


def _by_daemon(cluster: Cluster, settings: Settings, *, driven: bool) -> Iterator[Finding]:
    found = misfit(cluster.offers, settings)
    if found is None:
        return
    if driven:
        put = (("scheduler.interval", found.interval),) if found.interval else ()
        yield Finding("error", "daemon", found.what, found.fix, put)
    else:  # its interval is right for short links
        yield Finding(
            "advice", "daemon", found.what, "Before " + command("start", options=("--daemon",)) + ": " + found.fix
        )


def _link_time(settings: Settings) -> int | None:
    try:
        return time_limit(dict(settings.link_sbatch).get("time", ""))
    except ValueError:
        return None


def _account(cluster: Cluster, settings: Settings) -> Iterator[Finding]:
    site, chosen = cluster.site, dict(settings.sbatch).get("account", "")
    if chosen and site.accounts and chosen not in site.accounts:
        what = f"the settings name the account {chosen}, which is none of yours ({', '.join(site.accounts)})."
        yield Finding("error", "account", what, "", (("sbatch.account", site.account or site.accounts[0]),))
    elif cluster.accounts_enforced and not (chosen or site.account):
        put = (("sbatch.account", site.accounts[0]),) if site.accounts else ()
        fix = "" if put else "Ask for an account; then sbatch: {account: …} in cronhpc.yaml."
        yield Finding("error", "account", "jobs need an account here, and you have no default one.", fix, put)
    elif chosen or site.account:
        yield Finding("fine", "account", f"jobs are billed to {chosen or site.account}.")


# --- limits and ends -----------------------------------------------------------------------------------------------


def _limits(limits: Sequence[Limit], *, accounting: bool | None) -> Iterator[Finding]:
    least = min(limits, key=lambda each: each.submit, default=None)
    if least is None:
        known = "no limit on how many jobs you may queue." if accounting else "no accounting, so no limits on jobs."
        yield Finding("fine", "limits", known)
        return
    what = f"{least.whose} lets you have {count(least.submit, 'job')} in the queue"
    if least.submit < _LINK_JOBS - 1:
        what += ": a link could not submit its successor."
        yield Finding(
            "error", "limits", what, "Let ticks come from outside: a crontab line, or " + command("daemon") + "."
        )
    elif least.submit < _LINK_JOBS:
        what += ": there is no room for the spare, nor for runs while a link runs."
        yield Finding("warning", "limits", what, "Ask for a higher one, or let ticks come from outside.")
    elif least.submit < _LINK_JOBS + _ROOM:
        what += f"; the chain takes {_LINK_JOBS}. Runs wait for a free place, and none is lost."
        yield Finding("warning", "limits", what, "Ask for a higher limit if entries fall behind.")
    else:
        yield Finding("fine", "limits", f"{what}; the chain takes {_LINK_JOBS}.")


def _ends(cluster: Cluster, settings: Settings) -> Iterator[Finding]:
    """How anybody learns how a run ended."""
    age = cluster.site.min_job_age
    recorded = any(name == "record" and value == "true" for name, value, _ in settings.defaults)
    if cluster.site.accounting:
        yield Finding("fine", "ends", "sacct tells how runs ended.")
    elif cluster.site.accounting is None:
        yield Finding("unknown", "ends", "whether there is accounting could not be read.")
    elif recorded:
        yield Finding("fine", "ends", "no accounting here; runs write down how they ended (record: true).")
    else:
        kept = f"forgets an ended job after {format_duration(age)}" if age else "forgets ended jobs"
        often = format_duration(settings.interval)
        what = f"no accounting here, and the controller {kept}, while ticks come every {often}: some ends stay unknown."
        yield Finding("warning", "ends", what, "Let runs write their own end down.", (("defaults.record", "true"),))


def _rules(cluster: Cluster) -> Iterator[Finding]:
    if cluster.requeue:
        what = "JobRequeue=1: after a node failure Slurm runs a script again from its first line."
        yield Finding("advice", "requeue", what, "Where that would harm, write: #SBATCH --no-requeue")
    if cluster.kill_wait is not None and cluster.kill_wait < _GRACE:
        what = f"KillWait is {cluster.kill_wait} s: so long has a cancelled job between SIGTERM and SIGKILL."
        fix = "To write a checkpoint, warn earlier: kill: {switches: {NAME: {warn: USR1@5m}}}"
        yield Finding("advice", "kill", what, fix)
