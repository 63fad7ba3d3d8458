"""One rich cron directory at one instant, for the golden files: Friday 27 November 2026, 14:07:20 in Paris.

Thirty-four entries: in folders, with their own schedules, in cronhpc.yaml; nine days of history; runs that wait, run,
failed, are tried again; an array, switches, a suspension, series, files that are passed over. `outside` fixes all that
is not in the directory: the machine's name, the user's, ages of files, the batch system. `now` is an argument.
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cronhpc.batch.port import JobFiles, Submission
from cronhpc.core.model import (
    ClaimState,
    EntryState,
    HistoryRow,
    Job,
    JobEnd,
    Key,
    LinkKind,
    LinkRecord,
    Queue,
    Result,
    Rules,
    SchedulerState,
    Started,
    Way,
    entry_id,
    slot_text,
    token,
)
from cronhpc.core.model.site import Partition, Site
from cronhpc.core.pieces import Ran
from cronhpc.engine import init
from cronhpc.script.dialect import SLURM
from cronhpc.store import files, history, memory, scheduler, series_records
from cronhpc.store.claims import Claims
from cronhpc.store.files import Paths
from cronhpc.store.memory import Memory
from tests.view_situations import NOW, at
from tests.worlds import WithoutAccounting, waits_for, write_end

ID = "ab12cd"
OLD = at("10:00", 18)  # when all scripts but the new one were put there

SETTINGS = """\
backend: slurm
timezone: Europe/Paris
sbatch: {partition: cpu, account: abc}
folders: {hourly: "7 * * * *", daily: "47 4 * * *", weekly: "12 5 * * sun", monthly: "5 6 1 * *"}
defaults: {catch-up: latest}
scheduler: {interval: 1h}
kill:
  switches:
    tr17: {jobs: {name: "tr17-*"}, warn: USR1@5m}
entries:
  quota: {schedule: "0 7 * * mon", command: "df -h ~", sbatch: {time: 5}}
  hello: {schedule: "*/30 8-18 * * mon-fri", command: "python -m hello", sbatch: {time: 10}}
  wrong: {schedule: "0 25 * * *", command: "true"}
alerts: {command: /bin/true}
"""

SCRIPTS = {
    "cron.hourly/sync-results": "#SBATCH --time=20\nrsync -a out/ /archive/out/",
    "cron.hourly/heartbeat": "#SBATCH --time=1\ndate > beat",
    "cron.daily/backup": "#SBATCH --time=30\nrsync -a --delete ~/project/ /archive/project/",
    "cron.daily/cleanup": "#SBATCH --time=10\nfind scratch -mtime +30 -delete",
    "cron.daily/mirror": "#SBATCH --time=60 --partition=io\nrclone sync a: b:",
    "cron.daily/quota-report": "#SBATCH --time=5\nquota -s",
    "cron.weekly/full-backup": "#SBATCH --time=8:00:00\ntar cf /archive/all.tar ~/project",
    "cron.monthly/report": "#SBATCH --time=15\npython report.py",
    "cron.d/hub-sync": "#SBATCH --time=20 --job-name=hub-sync\n#CRON */30 8-18 * * mon-fri --overlap=skip\nhub sync",
    "cron.d/gpu-health": "#SBATCH --time=5 --gres=gpu:1\n#CRON 20 5 * * *\nnvidia-smi",
    "cron.d/loss-watch": "#SBATCH --time=5\n#CRON 0 22 * * *\npython watch.py",
    "cron.d/sweep": "#SBATCH --time=2:00:00 --array=1-8%4\n#CRON 30 12 * * *\npython sweep.py $SLURM_ARRAY_TASK_ID",
    "cron.d/fetch": "#SBATCH --time=10\n#CRON 0 13 * * * --retries=2 --retry-delay=45m\ncurl -fsS https://example.org/x",
    "cron.d/flaky": "#SBATCH --time=10\n#CRON 0 6 * * * --suspend-after=3\npython flaky.py",
    "cron.d/assemble": "#SBATCH --time=10 --mem=2G\n#CRON 0 3 * * *\npython assemble.py",
    "cron.d/one-node": "#SBATCH --time=10\n#CRON 15 * * * *\npython sim.py",
    "cron.d/low-priority": "#SBATCH --time=4:00:00 --qos=low\n#CRON 0 1 * * * --retries=1\npython low.py",
    "cron.d/every-ninety": "#SBATCH --time=10\n#CRON @every 90m\npython poll.py",
    "cron.d/new-york": "#SBATCH --time=10\n#CRON 30 9 * * mon-fri --timezone=America/New_York\npython market.py",
    "cron.d/queued": "#SBATCH --time=3:00:00\n#CRON 0 */2 * * * --overlap=queue\npython long.py",
    "cron.d/replaced": "#SBATCH --time=3:00:00\n#CRON 0 * * * * --overlap=replace --deadline=20m\npython newest.py",
    "cron.d/catches-up": "#SBATCH --time=5\n#CRON 0 10-13 * * * --catch-up=all --catch-up-limit=3\npython book.py",
    "cron.d/recorded": "#SBATCH --time=5\n#CRON 40 13 * * * --record\npython told.py",
    "cron.d/a-name-that-is-so-long-that-no-column-of-a-table-holds-it-whole": "#SBATCH --time=5\n#CRON 0 8 * * *\ntrue",
    "cron.d/größe": "#SBATCH --time=5\n#CRON 5 8 * * *\ndu -sh .",
    "cron.d/brand-new": "#SBATCH --time=5\n#CRON 0 2 * * *\ntrue",
    "cron.d/no-schedule": "#SBATCH --time=5\ntrue",
    "cron.d/bad-schedule": "#SBATCH --time=5\n#CRON 0/15 * * * *\ntrue",
    "cron.d/bad-option": "#SBATCH --tme=5\n#CRON 0 8 * * *\ntrue",
    "cron.d/open-to-all": "#SBATCH --time=5\n#CRON 0 8 * * *\ntrue",
    "cron.d/late-directive": "#CRON 0 9 * * *\nset -e\n#SBATCH --time=5\ntrue",
}
OTHERS = ("cron.hourly/sync-results.slurm~", "cron.d/notes.txt", "cron.d/.hidden.slurm", "stray.slurm")


class Cluster(WithoutAccounting):
    """A batch system whose answers are always the same; what is submitted gets the next number, and is held."""

    dialect = SLURM
    accounting: bool | None = True

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = list(jobs)
        self.number = 4800

    def tools(self) -> str:
        return "/opt/slurm/bin"

    def queue(self) -> Queue:
        return Queue(tuple(self.jobs))

    def restarts(self) -> Mapping[str, int]:
        return {}

    def live_files(self) -> tuple[JobFiles, ...]:
        return tuple(JobFiles(job.id, job.command or "", job.workdir) for job in self.jobs if job.live)

    def script(self, job_id: str) -> str:
        return f"#!/bin/bash\n# {job_id}\n"

    def submit(self, job: Submission) -> str:
        self.number += 1
        why = waits_for("JobHeldUser" if job.held else "BeginTime")
        name, number = job.job_name or Path(job.script).stem, str(self.number)
        made = Job(number, "PENDING", name, job.comment, **why, start=job.begin, submitted=NOW, command=job.script)
        self.jobs.append(made)
        return made.id

    def _change(self, job_ids: Sequence[str], **facts: Any) -> None:
        ids = {each.partition("_")[0] for each in job_ids}
        self.jobs = [replace(job, **facts) if job.id in ids else job for job in self.jobs]

    def release(self, job_ids: Sequence[str]) -> None:
        self._change(job_ids, **waits_for("Priority"))

    def cancel(self, job_ids: Sequence[str], **_: bool) -> None:
        self._change(job_ids, state="CANCELLED", ended=NOW)

    def signal(self, job_ids: Sequence[str], name: str) -> None:
        pass

    def move(self, job_id: str, at: int, comment: str | None = None, *_: object) -> None:
        self._change([job_id], start=at, **({} if comment is None else {"comment": comment}))

    def hold(self, job_ids: Sequence[str], comment: str) -> None:
        self._change(job_ids, **waits_for("JobHeldUser"), comment=comment)

    def comment(self, job_ids: Sequence[str], comment: str) -> None:
        self._change(job_ids, comment=comment)

    def unhold(self, job_ids: Sequence[str], comment: str) -> None:
        self._change(job_ids, **waits_for("Priority"), comment=comment)

    def of_scrontab(self, *_: object) -> frozenset[str]:
        return frozenset()

    def site(self) -> Site:
        parts = (Partition("gpu", default=True, gpus=True, nodes=4), Partition("cpu", nodes=20, time_limit=86400))
        return Site("alps", "24.11.5", "abc", ("abc",), parts, accounting=True, min_job_age=300)

    def undoing(self) -> str:
        return ""

    def cluster_name(self) -> str:
        return "alps"

    def clock(self) -> int | None:
        return NOW

    def describe(self, *_: object) -> Mapping[str, str]:
        return {}


def outside(patch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    """Fix what a screen shows and the directory does not hold."""
    real_user, real_clock = pwd.getpwuid, files.DiskClock
    machine = SimpleNamespace(nodename="login1", sysname="Linux", release="6.1", version="1", machine="x86_64")
    patch.setattr(os, "uname", lambda: machine)
    patch.setattr(pwd, "getpwuid", lambda uid: pwd.struct_passwd(("alice", *real_user(uid)[1:])))
    # they have it from a cache, which outlives a test
    where = ("inside.switch_file", "store.damage", "store.switches", "store.trust", "engine.site", "engine.read")
    for module in (*where, "doctor.look", "cli.import_"):
        patch.setattr(f"cronhpc.{module}.owner", lambda _: "alice")
    # a file's ctime is of the machine's clock: its mtime, which a test may set, is taken for both
    patch.setattr(real_clock, "ours", lambda _, found, __: int(found.st_mtime))
    patch.setattr("cronhpc.engine.site.disk_clock", lambda _: real_clock())
    patch.setattr("cronhpc.logs.housekeeping.clock_of", lambda _: NOW)
    patch.setattr("cronhpc.cli.console._clock", lambda: NOW)
    for module in ("engine.site", "doctor.look", "cli.setup"):
        patch.setattr(f"cronhpc.{module}.connect", lambda *_, **__: cluster)
    for module in ("engine.site", "doctor.look"):
        patch.setattr(f"cronhpc.{module}.machine_zone", lambda: "Europe/Paris")
    patch.setattr("cronhpc.engine.link.render", lambda *_, **__: ("#!/bin/bash\n# a link\n", "fp"))


def make(root: Path) -> None:
    """Build it in `root`."""
    init.init(root, {})
    paths = Paths(root)
    for where in (paths.state, paths.scheduler):
        (where / "id").write_text(f"{ID}\n")
    _write(paths.settings, SETTINGS)
    for name, text in SCRIPTS.items():
        _write(root / f"{name}.slurm", f"#!/bin/bash\n{text}\n", NOW - 3600 if name.endswith("new") else OLD)
    for name in OTHERS:
        _write(root / name, "#!/bin/bash\ntrue\n")
    (root / "cron.d" / "nowhere.slurm").symlink_to("/no/such/script.slurm")
    (root / "cron.d" / "open-to-all.slurm").chmod(0o666)
    (root / "cron.dayly").mkdir()
    _write(root / "cron.dayly" / "lost.slurm", "#!/bin/bash\ntrue\n")
    _write(root / "kill" / "loss-watch", "loss spikes since noon\n", at("22:14", 26))
    _write(root / "kill" / "los-watch", "", at("09:00"))
    _write(root / "kill" / "backup~", "", at("09:00"))
    _write(root / "pause" / "gpu-health", "until the driver is in\nexpires: 6h\n", at("11:30"))
    _claims(paths)
    rows = list(past())
    _logs(root, rows)
    history.append(paths.history, rows, host="login1", now=NOW)
    memory.save(paths.entries, Memory(states(rows), replace(SCHEDULER)))
    for record in series():
        series_records.save(paths.state, record)
    scheduler.mark_started(
        paths, Started(via=Way.CHAIN, fingerprint="fp", at=at("10:05", 18), by="alice", cluster="alps")
    )
    scheduler.remember_batch_system(paths, SLURM)
    for job, kind, start in (("4711", LinkKind.SUCCESSOR, "15:00"), ("4712", LinkKind.SPARE, "15:30")):
        scheduler.remember_link(paths, job, LinkRecord(kind, at(start), "fp", at("14:00")))


def copy(root: Path, to: Path) -> None:
    """What `make` built, at the place where it is looked at."""
    shutil.copytree(root, to, symlinks=True)
    written = (root / "status.json").read_text(encoding="utf-8")
    (to / "status.json").write_text(written.replace(str(root), str(to)), encoding="utf-8")
    scheduler.expect(Paths(to), at("14:00:04"), at("16:30"))
    files.remember_place(Paths(to))


def _write(path: Path, text: str, modified: int = OLD) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
    os.utime(path, (modified, modified))


SCHEDULER = SchedulerState(
    last_tick=at("14:00:04"),
    caller="link 4701",
    wake=at("15:00"),
    successor="4711",
    spare="4712",
    noted=(f"{Key('fetch', at('13:00'))} {at('14:15')}",),
    recent=((at("14:00") // 60, "", 2),),
)

# name: (slot, job, state in the queue, reason, step of the claim)
UNDER_WAY = {
    "sync-results": ("14:07", "4790", "PENDING", "Priority"),
    "mirror": ("04:47", "4602", "PENDING", "Resources"),
    "hub-sync": ("14:00", "4780", "RUNNING", "None"),
    "queued": ("12:00", "4770", "RUNNING", "None"),
    "replaced": ("13:00", "4775", "RUNNING", "None"),
    "low-priority": ("01:00", "4601", "PENDING", "QOSMaxJobsPerUserLimit"),
    "one-node": ("14:15", "4791", "PENDING", "BeginTime"),
}


def jobs(root: Path) -> Iterator[Job]:
    """The queue: links, runs, an array, a piece of a series, jobs that are none of this directory's."""
    for number, kind, slot in (("4711", "link", at("15:00")), ("4712", "spare", at("15:30"))):
        name = f"cronhpc-{ID}" if kind == "link" else f"cronhpc-{ID}-spare"
        mark = token(ID, f"{kind} {slot} fp")
        yield Job(number, "PENDING", name, mark, "BeginTime", start=slot, submitted=at("14:00"), partition="cpu")
    for name, (clock, number, state, reason) in UNDER_WAY.items():
        slot = at(clock)
        runs = state == "RUNNING"
        start = slot + 8 if runs else slot if reason == "BeginTime" else at("16:30") if reason == "Resources" else None
        yield Job(
            number, state, name, token(ID, str(Key(name, slot))), **waits_for(reason), start=start,
            submitted=min(slot + 4, at("14:00:04")), partition="cpu", account="abc", workdir=str(root),
            nodes="cpu3" if runs else "",
        )  # fmt: skip
    mark = token(ID, str(Key("sweep", at("12:30"))))
    common: dict[str, Any] = {"name": "sweep", "comment": mark, "submitted": at("12:30:04"), "partition": "cpu"}
    for task, state in (
        ("1", "COMPLETED"),
        ("2", "FAILED"),
        ("3", "RUNNING"),
        ("4", "RUNNING"),
        ("[5-8%4]", "PENDING"),
    ):
        ended = state in {"COMPLETED", "FAILED"}
        yield Job(
            "4760", state, tasks=task, reason="JobArrayTaskLimit" if state == "PENDING" else "None",
            start=None if state == "PENDING" else at("12:31"), ended=at("13:40") if ended else None,
            exit_code=int(state == "FAILED") if ended else None, nodes="" if state == "PENDING" else f"cpu{task}",
            **common,
        )  # fmt: skip
    key = str(Key("train", at("13:20")))
    yield Job("4750", "RUNNING", "train", token(ID, key), start=at("13:20"), submitted=at("06:00"), nodes="gpu1")
    yield Job("4640", "RUNNING", "tr17-a", "", start=at("09:00"), submitted=at("08:59"), nodes="gpu2", partition="gpu")
    yield Job("4641", "PENDING", "notebook", "", "Priority", submitted=at("13:59"), partition="cpu")


def _claims(paths: Paths) -> None:
    claims = Claims(paths.claims)

    def released(name: str, slot: int, job: str, attempt: int = 1) -> None:
        key = Key(entry_id(name), slot, attempt)
        claims.make(key, name, "login1:1:aa", min(slot + 2, at("14:00:02")))
        claims.record(key, job, min(slot + 4, at("14:00:04")))
        claims.step(key, ClaimState.RELEASING)
        claims.step(key, ClaimState.RELEASED)

    for name, (clock, job, _, _) in UNDER_WAY.items():
        released(name, at(clock), job)
    released("sweep", at("12:30"), "4760")
    released("train", at("13:20"), "4750")
    key = Key("fetch", at("13:00"))
    claims.make(key, "fetch", "login1:1:aa", at("13:00:02"))
    failed = JobEnd(Result.FAILED, 22, None, at("13:00:04"), at("13:00:20"), at("13:00:31"), "cpu4")
    write_end(claims, key, "fetch", failed, "4772", now=at("13:02"), retry_at=at("14:15"))


def row(name: str, slot: int, result: str = "ok", **facts: Any) -> Any:
    """A line of history: waited 20 s and ran for two minutes, unless told otherwise."""
    known = {"what": "run", "key": str(Key(entry_id(name), slot)), "entry": name, "slot": slot, "result": result}
    if result in {"missed", "skipped", "stopped", "suspended"}:
        return {**known, "what": "slot", "at": slot + 60, "count": 1, **facts}
    if result == "ok":
        facts.pop("detail", None)
    number = str(1000 + slot // 60 % 3600)
    times = {"submitted": slot + 4, "started": slot + 24, "ended": slot + 144, "at": slot + 3600}
    log = f"log/{entry_id(name)}/{slot_text(slot)}-{number}.out"
    code = {} if result == "timed out" else {"exit_code": int(result != "ok")}
    return {**known, **times, "attempt": 1, "job": number, "node": "cpu2", "log": log, **code, **facts}


def past() -> Iterator[HistoryRow]:
    """Nine days, oldest first."""
    for day in range(19, 28):
        last = day == 27
        four, six = at("04:47", day), at("06:00", day)
        for name in ("cleanup", "quota-report"):
            yield row(name, four, ended=four + 300, node="cpu1")
        wrong = {"ended": four + 36, "detail": "rsync: No space left on device"} if day > 24 else {"ended": four + 5400}
        yield row("backup", four, "failed" if day > 24 else "ok", exit_code=12 if day > 24 else 0, **wrong)
        if not last:
            yield row("mirror", four, "timed out" if day == 26 else "ok", ended=four + 3630, node="io1")
            yield row("sweep", at("12:30", day), "ok", ended=at("13:50", day))
            yield row(
                "loss-watch", at("22:00", day), "stopped" if day == 26 else "ok", detail="kill/loss-watch, by bob"
            )
            yield row("fetch", at("13:00", day))
            yield row("low-priority", at("01:00", day), "preempted" if day == 26 else "ok")
        if day < 27:
            yield row("gpu-health", at("05:20", day), started=at("05:38", day), ended=at("05:38:41", day), node="gpu1")
        if day > 23:
            yield row(
                "flaky", six, "suspended" if last else "failed", detail="after 3 failures in a row" if last else ""
            )
        yield row(
            "assemble", at("03:00", day), "out of memory" if last else "ok", detail="asked for 2G" if last else ""
        )
        yield row("a-name-that-is-so-long-that-no-column-of-a-table-holds-it-whole", at("08:00", day))
        yield row("größe", at("08:05", day))
        for hour in range(10, 14):
            yield row("catches-up", at(f"{hour}:00", day))
        for half in range(8 * 2, 14 * 2 if last else 19 * 2):
            if day % 7 not in {0, 1}:
                clock = f"{half // 2:02}:{half % 2 * 30:02}"
                yield row(
                    "hub-sync", at(clock, day), "skipped" if half == 20 else "ok", detail="the previous run goes on"
                )
                yield row("hello", at(clock, day), started=at(clock, day) + 5, ended=at(clock, day) + 9)
    yield row("fetch", at("13:00"), "failed", exit_code=22, job="4772", node="cpu4", ended=at("13:00:31"))
    for hour in range(14):
        failed = hour > 9
        yield row("one-node", at(f"{hour:02}:15"), "node failed" if failed else "ok", node="cpu7" if failed else "cpu2")
        yield row("heartbeat", at(f"{hour:02}:07"), ended=at(f"{hour:02}:07") + 26)
        yield row(
            "sync-results", at(f"{hour:02}:07"), "missed" if hour == 3 else "ok", detail="the controller was silent"
        )
    yield row("full-backup", at("05:12", 22), ended=at("11:40", 22))
    yield row("new-york", at("15:30", 26), "cancelled", detail="cancelled by root")
    yield row("queued", at("10:00"), ended=at("12:00"))
    yield row("replaced", at("12:00"), "killed", detail="replaced by the run of 13:00")
    yield row("every-ninety", at("13:30"), started=at("13:42"), ended=at("13:44"))
    yield row("recorded", at("13:40"), "ended, outcome unknown")
    yield row("quota", at("07:00", 23))


def states(rows: Sequence[HistoryRow]) -> dict[str, EntryState]:
    """What ticks would have left of that history."""
    found: dict[str, EntryState] = {}
    for each in sorted(rows, key=lambda row: int(row["slot"])):
        before = found.get(each["entry"], EntryState())
        ok, bad = each["result"] == "ok", each["result"] in {"failed", "timed out", "out of memory", "node failed"}
        nodes = (*before.nodes, each["node"])[-5:] if bad else () if ok else before.nodes
        found[each["entry"]] = replace(
            before,
            watermark=each["slot"],
            last=each,
            successes=before.successes + 1 if ok else 0 if bad else before.successes,
            failures=before.failures + 1 if bad else 0 if ok else before.failures,
            nodes=nodes,
            well_on=each["node"] if ok else before.well_on,
            previous_success=before.last.get("slot") if ok else before.previous_success,
        )
    for name, (clock, *_) in UNDER_WAY.items():
        if at(clock) < NOW:
            found[name] = replace(found.get(name, EntryState()), watermark=at(clock))
    found["sweep"] = replace(found["sweep"], watermark=at("12:30"))
    found["flaky"] = replace(found["flaky"], suspended=at("06:00", 26) + 144, watermark=at("06:00"))
    found["heartbeat"] = replace(
        found["heartbeat"], blocked_reason="over budget: MaxSubmitJobs", blocked_since=at("14:07:10")
    )
    return found


def series() -> Iterator[series_records.Record]:
    """Jobs that keep themselves going: one that runs, one that rests, one in trouble."""
    ends = {"4700": (at("17:20", 26), at("13:18")), "4698": (at("20:00", 25), at("16:00", 26))}
    ran = tuple(Ran(job, Result.OK, *times) for job, times in ends.items())
    yield series_records.Record(
        "train", "/home/alice/train.slurm", "/home/alice", Rules(after=True, max_runs=20),
        submitted=("--time=20:00:00",), job_name="train", first="4690", seen="4750", at=at("13:20"), runs=5, ran=ran,
        logs=(("4750", "/home/alice/train-4750.out"),),
    )  # fmt: skip
    yield series_records.Record(
        "watchdog", "/home/alice/watchdog.slurm", "/home/alice", Rules(every=3600), job_name="watchdog", seen="4650",
        at=at("09:00"), runs=12, no_next="three crashes in a row",
    )  # fmt: skip
    yield series_records.Record(
        "evaluate", "/home/alice/evaluate.slurm", "/home/alice", Rules(cron="0 3 * * *", timezone="Europe/Paris"),
        job_name="evaluate", seen="4600", at=at("03:00"), runs=2, trouble="sbatch: invalid account",
    )  # fmt: skip


def _logs(root: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """The logs of what went wrong in the last two days, and old ones that a tick would remove."""
    for each in rows:
        if "log" in each and each["result"] != "ok" and each["slot"] > at("00:00", 26):
            path = root / each["log"]
            path.parent.mkdir(exist_ok=True)
            path.parent.chmod(0o755)
            _write(path, "".join(f"{each['entry']}: line {n}\n" for n in range(4)), each["ended"])
    folder = root / "log" / "backup"
    _write(folder / f"{slot_text(at('04:47'))}-{1000 + at('04:47') // 60 % 3600}.out", BACKUP_LOG, at("04:48"))
    for day in (1, 2, 3):
        _write(folder / f"202611{day:02}T0347Z-{100 + day}.out", "x" * 3000, at("05:00", day))
    _write(folder / "notes.txt", "mine\n")


BACKUP_LOG = (
    "".join(f"sending chunk {n}\n" for n in range(130)) + "rsync: No space left on device (28)\n\x1b[31mred\x1b[0m\n"
)
