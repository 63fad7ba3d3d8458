"""State files that are JSON of another shape: whatever stands in them, commands work, and nothing runs a second time.

Each look puts something bad into one place of every file at once. So every place of every file has had something bad in
it, and every bad value was in every file; CRONHPC_SHAPES=all tries every value in every place alone (minutes).
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess  # noqa: TID251 - a shell with closed streams
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cronhpc.batch.local import Local, supervisor
from cronhpc.core.model import EntryState, HistoryRow, Job, JobEnd, Key, LinkKind, LinkRecord, Result, decode
from cronhpc.store import history, lease, memory, scheduler
from cronhpc.store.claims import Claims
from cronhpc.store.files import Paths, sweep
from tests.cli.test_cli import Shell
from tests.cli.test_cli import shell as shell  # noqa: PLC0414 - a fixture
from tests.worlds import write_end

DATA = Path(__file__).parents[1] / "data" / "state-v1"
NOW = 1795831980  # as in tests/store/test_state_versions.py: two minutes after the newest slot, two before the next
SCRIPT = "#!/bin/bash\n#CRON */5 * * * * --suspend-after=3\ntrue\n"
RUNNING = "backup@20261128T0210Z.1"
MORE: dict[str, Any] = {  # what that state does not have
    f"state/ends/{RUNNING}.json": {"exit_code": 0, "started": 1795831863, "ended": 1795831864, "node": "cpu1"},
    "state/outbox.json": {
        "version": 1,
        "rows": [{"way": "ntfy", "at": NOW - 60, "alert": {"phase": "new", "kind": "failed", "text": "no"}}],
    },
    "state/environment.json": {"version": 1, "environment": {"PATH": "/usr/bin:/bin", "HOME": "/tmp"}},
    "state/daemon.json": {"version": 1, "pid": 1, "born": "12", "host": "login1"},
    "scheduler/started": {
        "version": 1, "via": "resident", "fingerprint": "f00d", "prequeue": 2, "at": NOW - 900, "by": "alice",
    },
}  # fmt: skip
DEEP, INFINITE = "@deep@", "@infinite@"
BAD: list[Any] = [
    None, True, -1, INFINITE, float("nan"), 10**20, 0.5, "x", "", "a\0b", "\ud800", [], {}, [[[[["x"]]]]], {"x": [7]},
    DEEP,
]  # fmt: skip

Place = tuple[Any, ...]


def written(value: Any) -> bytes:
    text = json.dumps(value).replace(f'"{INFINITE}"', "1e400").replace(f'"{DEEP}"', "[" * 100_000 + "]" * 100_000)
    return text.encode()


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield from places(each, (*at, name))


def changed(value: Any, at: Place, bad: Any) -> Any:
    if not at:
        return bad
    fresh = copy.deepcopy(value)
    place = fresh
    for name in at[:-1]:
        place = place[name]
    place[at[-1]] = bad
    return fresh


class State:
    """A cron directory whose state is put back before each look."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.root = shell.cron
        shutil.rmtree(self.root / "state")
        shutil.copytree(DATA, self.root / "state", copy_function=shutil.copyfile)
        shutil.copyfile(self.root / "state" / "id", self.root / "scheduler" / "id")
        for name in ("backup", "sync"):
            (self.root / "cron.d" / f"{name}.slurm").write_text(SCRIPT, encoding="utf-8")
        for name, value in MORE.items():
            (self.root / name).write_bytes(written(value))
        for folder, _, files in os.walk(self.root):
            Path(folder).chmod(0o700)
            for each in files:
                Path(folder, each).chmod(0o600)
        self.values = {path: json.loads(path.read_bytes()) for path in self._json()}
        self.first = {path: path.read_bytes() for path in self._files()}
        self.ran = {str(row["key"]) for row in history.rows(self.root / "state" / "history") if row["what"] == "run"}
        self.ran.add(RUNNING)

    def _files(self) -> list[Path]:
        tops = (self.root / "state", self.root / "scheduler")
        return [Path(folder, each) for top in tops for folder, _, files in os.walk(top) for each in files]

    def _json(self) -> list[Path]:
        return [p for p in sorted(self._files()) if p.read_bytes()[:1] == b"{" and p.suffix != ".jsonl"]

    def put_back(self, *, running: bool = False) -> None:
        """All but the cache of parsed files: the next look need not parse them. `running`: the newest run still is."""
        shutil.rmtree(self.root / "state" / "local" / "jobs", ignore_errors=True)
        if running:
            self._run()
        for path in self._files():
            if path not in self.first and path.name != "cache.json":
                path.unlink()
        for path, data in self.first.items():
            if path.name != "cache.json":
                path.write_bytes(data)

    def _run(self) -> None:
        folder = self.root / "state" / "local" / "jobs" / "11"
        folder.mkdir(parents=True)
        me = supervisor.identity(os.getpid())
        facts = {"id": 11, "script": "/x", "job_name": "backup.slurm", "chdir": "/tmp", "submitted": NOW - 120}
        plan = {"begin": None, "held": False, "comment": f"cronhpc=cc72a7/{RUNNING}"}
        for name, value in (("job.json", facts), ("plan.json", plan), ("fate", {"fate": "started", **me})):
            supervisor.write(str(folder), name, value)

    def look(self, put: str, *, again: bool = True) -> None:
        """Every command works, whatever it says, and no attempt that ran is submitted again."""
        for command in (["tick"], ["status"], ["plan"], *([["tick", "--json"]] if again else [])):
            said = self.shell(*command, now=NOW)
            assert said.code in {0, 1}, f"{put}: {command}: {said.err}"
        assert not self.submitted() & self.ran, put

    def submitted(self) -> set[str]:
        jobs = (self.root / "state" / "local" / "jobs").glob("*/plan.json")
        comments = [json.loads(path.read_bytes())["comment"] for path in jobs if path.parent.name != "11"]
        tokens = (Job("1", "PENDING", comment=each).token_of("cc72a7") or "" for each in comments)
        return {str(key) for each in tokens if (key := Key.of(each.partition(" ")[0])) is not None}


@pytest.fixture
def state(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> State:
    monkeypatch.setattr(Local, "_supervise", lambda *_: None)  # what is submitted waits for ever
    made = State(shell)
    said = shell("tick", now=NOW)
    assert said.code == 0, said.out + said.err
    made.first[made.root / "state" / "cache.json"] = b""
    return made


def looks(state: State) -> Iterator[dict[Path, tuple[Place, Any]]]:
    found = {path: list(places(value)) for path, value in state.values.items() if path.name != "cache.json"}
    if os.environ.get("CRONHPC_SHAPES") == "all":
        yield from ({path: (at, bad)} for path, all_of_it in found.items() for at in all_of_it for bad in BAD)
        return
    for number in range(max(map(len, found.values()))):
        yield {
            path: (every[number % len(every)], BAD[(number + nth) % len(BAD)])
            for nth, (path, every) in enumerate(found.items())
        }


@pytest.mark.thorough
def test_a_value_of_another_shape_stops_no_command_and_nothing_runs_twice(state: State) -> None:
    for number, look in enumerate(looks(state)):
        state.put_back(running=number % 2 == 0)
        for path, (at, bad) in look.items():
            path.write_bytes(written(changed(state.values[path], at, bad)))
        put = ", ".join(f"{p.name} {at}: {bad!r}"[:120] for p, (at, bad) in look.items())
        state.look(put, again=number % 4 < 2)  # with and without a run that lives


ROWS = [
    "[" * 100_000,
    '{"what":"run","key":"backup@20261128T0100Z.1","at":"x","slot":[],"ended":"soon","result":7,"log":{}}',
    "7", '{"what":"switch","at":1795830000,"jobs":7,"gone":[1],"were":"x"}', '{"at":1e400,"key":{},"what":[]}',
    '{"what":"run","at":99999999999999999999,"entry":"backup","slot":-1,"started":true,"result":"failed","log":null}',
]  # fmt: skip


def test_rows_of_history_of_another_shape_hide_no_others(state: State) -> None:
    path = next((state.root / "state" / "history").glob("*.jsonl"))
    path.write_text(path.read_text(encoding="utf-8") + "".join(f"{row}\n" for row in ROWS), encoding="utf-8")
    (state.root / "state" / "logs.json").unlink()
    os.mkfifo(path.with_name("2026-11.pipe.jsonl"))
    state.look("history")
    said = state.shell("history", "--json", "-n", "100", now=NOW)
    assert {row["job"] for row in said.json["runs"]} >= {"7", "8", "9", "10"}
    assert state.shell("page", now=NOW).code == 0


JOB_FILES = ["job.json", "plan.json"]


@pytest.mark.parametrize("name", JOB_FILES)
def test_a_local_job_whose_files_cannot_be_read_is_unknown_and_not_gone(state: State, name: str) -> None:
    assert state.shell("run", "backup", now=NOW).code == 0
    path = max((state.root / "state" / "local" / "jobs").glob(f"*/{name}"))
    jobs = sorted(path.parent.parent.iterdir())
    known = json.loads(path.read_bytes())
    for number, at in enumerate(places(known)):
        path.write_bytes(written(changed(known, at, BAD[number % len(BAD)])))
        said = state.shell("tick", now=NOW)
        assert said.code in {0, 1}, said.err
    assert sorted(path.parent.parent.iterdir()) == jobs, "nothing is submitted while it is unknown"
    path.unlink()
    os.mkfifo(path)
    assert "cannot be read" in state.shell("tick", now=NOW).out


def test_what_is_lost_is_said_once_by_a_tick_and_for_a_day_by_status(state: State) -> None:
    entries = state.root / "state" / "entries.json"
    value = state.values[entries]
    value["entries"]["sync"]["failures"] = "many"
    entries.write_bytes(written(value))
    ticks = [state.shell("tick", now=NOW).out for _ in range(2)]
    assert [each.count("W335") for each in ticks] == [1, 0]
    assert "entries.sync.failures" in ticks[0]
    assert memory.load(entries).entries["sync"].suspended == 1795830962, "the rest is kept"
    assert "state/entries.json" in state.shell("status", now=NOW + 600).out


def series_with(rules: dict[str, Any]) -> dict[str, Any]:
    return {"version": 1, "name": "train", "script": "/home/alice/train.slurm", "workdir": "/", "rules": rules}


FOR_EVER = [
    ("state/environment.json", {"version": 1, "environment": {"A": "1", "B": 7, "C=": "x"}}, "W333"),
    ("state/environment.json", {"version": 1, "environment": 7}, "W333"),
    ("state/trains/train.json", {"version": 1, "name": "train", "script": 7}, "W341"),
    ("state/trains/train.json", series_with({"every": "often"}), "W341"),
    ("state/trains/train.json", series_with({"every": 60, "on_holidays": False}), "W340"),
    ("state/trains/train.json", series_with({"cron": "0 3 * * *", "until_time": 1, "timezone": "No/Zone"}), "W340"),
    ("scheduler/started", {"version": 1, "via": "resident", "prequeue": 99999999999999}, "W336"),
    ("scheduler/started", [], "W336"),
]


@pytest.mark.parametrize(("name", "value", "code"), FOR_EVER)
def test_what_a_person_has_to_fix_is_said_until_then(state: State, name: str, value: Any, code: str) -> None:
    (state.root / name).write_bytes(written(value))
    for _ in range(2):
        assert state.shell("tick", now=NOW).out.count(code) == 1


def test_a_claim_that_is_of_no_use_is_told_by_the_tick_that_finds_it(state: State) -> None:
    (state.root / "state" / "claims" / "sync@20261128T0300Z.1").write_bytes(written({**MADE, "name": 7}))
    assert state.shell("tick", now=NOW).out.count("W337") == 1


def test_what_an_earlier_version_called_otherwise_is_no_damage(state: State) -> None:
    how, invalid = scheduler.read_started(Paths(state.root))
    assert (how and how.via, how and how.by, list(invalid)) == ("local", "alice", [])
    assert "W336" not in state.shell("tick", now=NOW).out


def test_a_watermark_beyond_all_dates_is_a_wrong_clocks(state: State) -> None:
    entries = state.root / "state" / "entries.json"
    value = state.values[entries]
    value["entries"]["sync"]["watermark"] = 10**20
    entries.write_bytes(written(value))
    state.look("watermark")
    assert memory.load(entries).entries["sync"].watermark <= NOW


# --- claims --------------------------------------------------------------------------------------------------------

MADE = {"version": 1, "name": "backup", "by": "x", "at": NOW}
CLAIMS: dict[str, tuple[str, bytes, bool]] = {  # what is in the claim's file, and whether it may have run
    "nothing: cut off while it was made": ("", b"", False),
    "its first bytes": ("", b'{"version":1,"name":"ba', False),
    "zeros, as a machine that fell leaves them": ("", bytes(64), False),
    "a list": ("", b"[]", True),
    "brackets": ("", b"[" * 100_000, True),
    "brackets in its own shape": ("", b'{"version":1,"name":' + b"[" * 100_000, True),
    "an object of somebody": ("", b'{"x":1}', True),
    "its end, cut off": ("", b'{"version":1,"name":"backup","at":1,"id":"7","ending":{"res', True),
    "a time that is none": ("", written({**MADE, "at": None}), False),
    "an id that is a number": (".run", written({"version": 1, "id": 1747, "at": 1}), True),
    "an id with a NUL": (".go", written({"version": 1, "id": "7\0", "at": 1}), True),
    "no id": (".id", b"{}", True),
}


@pytest.mark.parametrize(("suffix", "data", "may_have"), CLAIMS.values(), ids=CLAIMS)
def test_a_claim_that_tells_nothing_may_have_run(tmp_path: Path, suffix: str, data: bytes, *, may_have: bool) -> None:
    claims, key = Claims(tmp_path), Key("backup", 1795831800)
    (tmp_path / str(key)).write_bytes(written(MADE))
    (tmp_path / f"{key}{suffix}").write_bytes(data)
    (found,) = claims.read(set())
    assert (found.key, found.damaged, found.job_id, found.job_end) == (key, may_have, None, None)
    if suffix:
        claims.give_up(key)
        assert claims.exists(key), "another has gone further"


@pytest.mark.parametrize("suffix", ["", ".id"])
def test_a_claim_whose_version_is_no_number_is_told(tmp_path: Path, suffix: str) -> None:
    claims, key = Claims(tmp_path), Key("backup", 1795831800)
    claims.make(key, "backup", "me", NOW)
    (tmp_path / f"{key}{suffix}").write_bytes(written({**MADE, "id": "7", "version": "1"}))
    (found,) = claims.read(set())
    assert (found.job_id, claims.invalid) == ("7", [f"{key}{suffix}"])


def test_a_step_that_another_tick_has_taken_further_meanwhile_is_not_damaged(tmp_path: Path) -> None:
    claims, key = Claims(tmp_path), Key("backup", 1795831800)
    (tmp_path / str(key)).write_bytes(written(MADE))
    found = claims._read(key, {"", ".id"})
    assert (found.damaged, found.fresh, found.job_id) == (False, True, None)


@pytest.mark.parametrize(
    ("data", "job_id", "taken_back"),
    [
        pytest.param(b'{"version": 1, "id": "7", "at": 1}', "7", "7", id="its job"),
        pytest.param(b'{"version": 1, "id": "7", "at": 1}', "8", "", id="a job of an earlier claim of the slot"),
        pytest.param(b'{"version": 1, "id": "7", "at": 1}', None, "7", id="its job, whose steps are dropped already"),
        pytest.param(b"", "7", "7", id="cut off: its job"),
        pytest.param(b"[]", "7", "7", id="of another shape: its job"),
    ],
)
def test_which_job_was_taken_back(tmp_path: Path, data: bytes, job_id: str | None, taken_back: str) -> None:
    claims, key = Claims(tmp_path), Key("backup", 1795831800)
    claims.make(key, "backup", "me", NOW)
    if job_id:
        claims.record(key, job_id, NOW)
    (tmp_path / f"{key}.back").write_bytes(data)
    (found,) = claims.read(set())
    assert (found.job_id, found.taken_back, found.damaged) == (job_id, taken_back, False)
    assert claims.look([key]) == {key: found}


def test_what_a_tick_that_is_killed_while_a_job_is_ended_leaves_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims, key = Claims(tmp_path), Key("backup", 1795831800)
    claims.make(key, "backup", "me", NOW)
    claims.record(key, "7", NOW)
    monkeypatch.setattr("cronhpc.store.claims.remove", lambda _: sys.exit("killed"))
    with pytest.raises(SystemExit):
        claims.end_job(key, "7")
    sweep(tmp_path, sys.maxsize)
    assert [each.name for each in tmp_path.iterdir()] == [str(key)]


def test_the_step_of_a_run_taken_back_outlives_its_claim_until_the_slot_is_claimed_no_more(tmp_path: Path) -> None:
    claims, key = Claims(tmp_path), Key("backup", 1795831800)
    claims.make(key, "backup", "me", NOW, holds="a text")
    claims.record(key, "7", NOW)
    claims.take_back({key: "7"}, NOW)
    claims.end_job(key, "7")
    assert claims.names() == {key: {"", ".back"}}
    claims.give_up(key)
    assert claims.names() == {key: {".back"}}
    assert claims.read(set()) == ()
    claims.make(key, "backup", "me again", NOW + 1, holds="a text")
    claims.record(key, "8", NOW + 1, holds="another")
    claims.drop_steps(set())
    claims.end_job(key, "7")  # by a tick that had stood still
    assert claims.names() == {key: {"", ".id", ".back"}}
    assert [each.holds for each in claims.read(set())] == ["another"]
    write_end(claims, key, "backup", JobEnd(Result.OK), "8", now=NOW + 2)
    assert claims.names() == {key: {""}}
    claims.take_back({key: "7"}, NOW)
    claims.forget([key])
    claims.take_back({key: "7"}, NOW)
    claims.drop_steps(set())
    assert claims.names() == {}


def test_a_pipe_in_a_claims_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / RUNNING)
    (found,) = Claims(tmp_path).read(set())
    assert found.damaged
    assert not Claims(tmp_path).make(found.key, "backup", "me", NOW)


def test_a_status_of_any_depth_is_shown(state: State) -> None:
    path = state.root / "status.json"
    path.write_text(path.read_text(encoding="utf-8").replace("{", '{"x":' + "[" * 400 + "]" * 400 + ",", 1))
    assert state.shell("status", "--json", now=NOW).code in {0, 1}


# --- the lease, and streams ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["tick", "start", "stop"])
def test_a_pipe_in_the_leases_place_holds_nobody_up(state: State, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronhpc.batch.process.start", lambda *_, **__: os.getpid())  # no daemon
    monkeypatch.setattr("cronhpc.drivers.start.local_daemon", lambda *_: (None, ""))
    os.mkfifo(state.root / "state" / "lease")
    said = state.shell(verb, now=NOW)
    assert (said.code, said.out.count("W338")) == (0, 1 if verb == "tick" else 0), said.err


@pytest.mark.parametrize("bad", BAD, ids=repr)
@pytest.mark.parametrize("name", ["", "host", "pid", "born", "token", "job_id"])
def test_a_lease_of_another_shape_is_somebodys(tmp_path: Path, name: str, bad: Any) -> None:
    known = {"host": "login1", "pid": 7, "born": "12", "token": "ab12", "job_id": "", "restarts": ""}
    path = tmp_path / "lease"
    path.write_bytes(written(changed(known, (name,) if name else (), bad)))
    found = lease.read(path)
    assert found is not None
    assert lease.is_gone(found, lease.myself("login1", "", ""), lambda _: False) in {True, False}


def cronhpc(shell: Shell, words: str) -> subprocess.CompletedProcess[str]:
    env = {**shell.environ, "PYTHONPATH": os.fspath(Path(__file__).parents[2]), "PY": sys.executable}
    line = f'"$PY" -m cronhpc {words}; echo "rc=$?" >&9'
    return subprocess.run(["bash", "-c", f"({line}) 9>&2"], env=env, capture_output=True, text=True, check=False)


STREAMS = [("tick >&-", 0, 0), ("tick <&- >&- 2>&-", 0, 0), ("tick 2>/dev/full", 0, 0), ("check >/dev/full", 2, 1)]


@pytest.mark.processes
@pytest.mark.parametrize(("words", "code", "lines"), STREAMS)
def test_a_stream_that_takes_nothing_stops_no_work(shell: Shell, words: str, code: int, lines: int) -> None:
    said = cronhpc(shell, words)
    *rest, last = said.stderr.splitlines()
    assert (last, len(rest)) == (f"rc={code}", lines), said.stderr
    assert words.startswith("check") or (shell.cron / "status.json").exists()


@pytest.mark.processes
def test_a_reader_that_has_left_is_no_error(shell: Shell) -> None:
    said = cronhpc(shell, "status --json | true; set -- ${PIPESTATUS[@]}; (exit $1)")
    assert said.stderr == "rc=0\n"


def test_the_table_knows_every_field_that_is_kept_of_an_entry() -> None:
    """A field that it does not know is left out in silence at the next look."""
    assert decode.of(EntryState).fields.keys() == set(EntryState.__slots__)
    assert decode.of(HistoryRow).fields.keys() >= set(JobEnd.__slots__)


LINKS = {
    "71": ("link 1795834800 f00d 1795831980\n", LinkRecord(LinkKind.SUCCESSOR, 1795834800, "f00d", 1795831980)),
    "72": ("spare 1795834800 - 1795831980", LinkRecord(LinkKind.SPARE, 1795834800, "-", 1795831980)),
    "73": ("other 1795834800 f00d 1795831980\n", None),
    "74": ("link soon f00d 1795831980\n", None),
    "75": ("link 1795834800 f00d now\n", None),
    "76": ("link 1795834800 f00d\n", None),
    "77": ("", None),
    "78.tmp": ("link 1795834800 f00d 1795831980\n", None),
}


def test_the_record_of_a_link_that_has_another_shape_is_none(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    assert scheduler.links(paths) == {}
    folder = paths.scheduler / "links"
    folder.mkdir(parents=True)
    for name, (text, _) in LINKS.items():
        (folder / name).write_text(text)
    (folder / "79").write_bytes(b"link 1 \xff\xfe 2\n")
    assert scheduler.links(paths) == {
        **{name: record for name, (_, record) in LINKS.items() if record},
        "79": LinkRecord(LinkKind.SUCCESSOR, 1, "\ufffd\ufffd", 2),
    }


def test_what_a_site_makes_of_submissions_is_kept_for_a_day_and_what_links_must_know_until_it_is_forgotten(
    tmp_path: Path,
) -> None:
    paths = Paths(tmp_path)
    paths.scheduler.mkdir()
    submit, begin, hold = scheduler.Asked
    changes = scheduler.SiteChanges(paths, memory.Cache(paths.state))
    assert (changes.looked_at(hold), changes.drops_hold, changes.drops_begin, changes.no_submit) == (0, "", "", "")
    for kind, shown in ((hold, "7"), (begin, ""), (submit, "cpu1: no")):
        changes.note(kind, shown, NOW)
    assert (changes.looked_at(hold), changes.looked_at(begin), changes.looked_at(submit)) == (NOW, NOW, 0)
    assert (changes.drops_hold, changes.drops_begin, changes.no_submit) == ("7", "", "cpu1: no")
    assert sorted(path.name for path in paths.scheduler.iterdir()) == ["no-submit"]
    changes.note(begin, "8", NOW + 1)
    assert (changes.drops_begin, changes.looked_at(begin), changes.cache.changed) == ("8", NOW + 1, True)
    changes.note(begin, "", NOW + 2)
    assert changes.drops_begin == "8", "until somebody says start anew"
    changes.forget()
    assert (changes.drops_begin, changes.no_submit, changes.drops_hold) == ("", "", "7")
    paths.scheduler.rmdir()
    changes.note(begin, "9", NOW + 3)
    assert changes.drops_begin == "", "a disk that refuses is no reason to fail"
