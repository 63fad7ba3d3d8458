"""What is to run, and by which policies."""

from __future__ import annotations

from dataclasses import dataclass

from cronhpc.core.model.problems import Problem


@dataclass(frozen=True, slots=True)
class Policies:
    """What may stand behind a schedule (design: the policy table)."""

    timezone: str | None = None  # IANA key; None: the settings', else the machine's
    catch_up: str = "latest"  # latest | all | none
    catch_up_limit: int = 100
    deadline: int | None = None  # None: until the next slot (never, for catch-up: all)
    overlap: str = "skip"  # skip | allow | replace | queue
    retries: int = 0
    retry_delay: int = 0
    suspend_after: int | None = None
    record: bool = False  # the run writes its own end, for sites without accounting
    ping: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A recurring job as its file says it, resolved once and kept until the file changes.

    `problem` set means invalid or not trusted: it stays due and is not submitted. `options` are sbatch options beyond
    the script's own, ready to be passed (`--partition=cpu`).
    """

    name: str
    source: str  # "cron.daily/backup.slurm", "cronhpc.yaml:14"
    script: str  # absolute path of what is submitted; "" for a command row
    schedule: str
    timezone: str
    hash_key: str  # what H fields hash
    policies: Policies = Policies()
    born: int = 0  # ctime of the file: slots before it are not its own
    options: tuple[str, ...] = ()
    own_options: tuple[str, ...] = ()  # what the script says itself, where a stub is submitted in its place
    job_name: str = ""
    output: bool = True  # cronhpc names the log; False where the script names an absolute one
    error: bool = False  # what goes to stderr is to be in it, too: the script names a relative file for that
    chdir: str = ""
    partition: str = ""  # as the script says; `options` are over it
    account: str = ""
    comment: str = ""  # the script's own
    array: str = ""  # its indexes as the script has them: "1-4%2"
    own_export: str = ""  # the script's own --export: it would keep the run's variables out
    holds_itself: bool = False  # the script asks for --hold: its runs are left held
    own_begin: bool = False  # the script asks for --begin
    command: str = ""  # a row's command: the text that its script is generated with
    arguments: tuple[str, ...] = ()  # of the script
    fresh: bool = False  # changed in the last seconds: left for the next look
    problem: Problem | None = None
    notes: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Train:
    """A long work that keeps itself going by `cronhpc again`; its pieces are claimed like an entry's slots.

    `entry` has no schedule: what is submitted is a stub that runs the script as it is when the piece starts.
    """

    entry: Entry
    when: str = ""  # "every 1h", "after each piece", in words
    runs: int = 0  # pieces that have started
    ends: tuple[str, ...] = ()  # what would end it, in words
    resting: str = ""  # why nothing is queued; "" while it goes on
    newest: str = ""  # the job of the piece that started last; the first one, a person's, has no claim
    at: int = 0  # when that was
    trouble: str = ""  # why that one has queued no next piece, though no rule of the series ended it
