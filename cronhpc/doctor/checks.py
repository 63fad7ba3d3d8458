"""All that `doctor` can say, one row a check: its level and topic, the sentence, and the fix.

A row is called with the facts that its sentence names; `fix` and `level` where the facts decide those, too.
"""

from __future__ import annotations

from enum import Enum, unique
from typing import TYPE_CHECKING

from cronhpc.core.model import command
from cronhpc.core.model.site import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

_SUBMIT = command("doctor", options=("--submit",))
_IF_STALE = command("start", options=("--if-stale",))
_LOGIN = command("start", options=("--via", "login"))
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
    FOLDER_CLOSED = ("error", "disk", "you cannot write in {place}.",
                     "A tick writes there: chmod u+rwx it, or see whether what it lies on is mounted read-only.")
    ROOM_SCARCE = ("warning", "room", "{free:.1f} of {total:.0f} {unit} are free there.",
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
    NOT_EXAMINED = ("unknown", "batch system",
                    "{title}: its limits, queues and nodes are not looked at; the rest is.")
    LEARNT = "fine", "batch system", "{title} {version}."
    NO_ANSWER = ("error", "slurm", "Slurm gives no answer: {why}.",
                 "Ask again later; a chain that runs outlives this.")
    ANSWERS = "fine", "slurm", "Slurm {version}, cluster {cluster}, answers."
    NO_TICK = "error", "ticks", "no tick comes: {why}.", "Put it back: " + command("start")
    NODES_MAY_NOT = ("error", "submit", "jobs may not submit here ({why}).",
                     "Let a login node submit a day's runs ahead: " + _LOGIN)
    CLOCK_UNKNOWN = "unknown", "clock", "the controller's clock could not be read."
    CLOCK_FINE = "fine", "clock", "this machine and the controller agree about the time."
    CLOCK_WRONG = ("warning", "clock", "this machine's clock is {skew} s {side} the controller's.",
                   "Tell the administrators. Schedules follow the clock of the node that a tick runs on.")
    SBATCH_UNANSWERED = "unknown", "sbatch", "sbatch --test-only gave no answer: {why}.", "Ask again later."
    SBATCH_REFUSES = ("error", "sbatch", "sbatch would not take the scheduler's job: {why}.",
                      "See sbatch: in cronhpc.yaml.")
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

    def __init__(self, level: str, topic: str, what: str, fix: str = "") -> None:
        self.level, self.topic, self.what, self.fix = level, topic, what, fix

    def __call__(
        self, *, level: str = "", fix: str = "", put: Sequence[tuple[str, str]] = (), **facts: object
    ) -> Finding:
        """The finding; `put`: settings (dotted key, value) that would fix it. Raises KeyError for a fact left out."""
        return Finding(level or self.level, self.topic, self.what.format(**facts), fix or self.fix, tuple(put))
