"""Ready-made jobs that are bash and a well-kept tool: the real one where machines have it, else a stand-in that knows
its options.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import os
import shutil
import signal
import sqlite3  # noqa: TID251 - what is dumped
import subprocess  # noqa: TID251 - keepers run while something else is done
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_cli import Shell
from tests.ready_made_jobs import JOBS, Ended, bare_environment, environment, filled_in, recording, run, stand_in

pytestmark = pytest.mark.processes

NEEDS_TOOLS = pytest.mark.lab  # wget, curl and sqlite3 come with the lab's packages: a plain machine may have none


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


# --- git-mirror ----------------------------------------------------------------------------------------------------


class Origin:
    """A repository that is mirrored, and its mirror."""

    def __init__(self, place: Path) -> None:
        self.place, self.path = place, place / "code"
        self.git("init", "--quiet", "--initial-branch=main", str(self.path), at=place)
        self.commit("one")
        (place / "mirrors").mkdir()
        self.mirror = Path(f"{place}/mirrors{self.path}.git")

    def git(self, *words: str, at: Path | None = None) -> str:
        argv = ["git", "-c", "user.name=me", "-c", "user.email=me@example.org", *words]
        environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
        done = subprocess.run(argv, cwd=at or self.path, env=environ, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, text: str) -> str:
        self.git("commit", "--quiet", "--allow-empty", "-m", text)
        return self.git("rev-parse", "HEAD")

    def run(self, *repos: str, prune: str = "no") -> Ended:
        settings = {"REPOS": f"({' '.join(repos or [str(self.path)])})", "FOLDER": f"'{self.place}/mirrors'"}
        return run(filled_in("git-mirror", self.place, **settings, PRUNE=prune), environment(self.place))

    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", at=self.mirror).split()


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path)


def test_a_mirror_is_cloned_once_and_then_fetched(origin: Origin) -> None:
    ended = origin.run()
    assert (ended.code, origin.mirror.is_dir()) == (0, True), ended.out
    assert mode(origin.mirror) == 0o700
    head = origin.commit("two")
    assert origin.run().code == 0
    assert origin.git("rev-parse", "main", at=origin.mirror) == head


@pytest.mark.parametrize(("prune", "left"), [("no", ["main", "old"]), ("yes", ["main"])])
def test_a_branch_that_is_gone_goes_only_where_that_was_asked_for(origin: Origin, prune: str, left: list[str]) -> None:
    origin.git("branch", "old")
    origin.run()
    origin.git("branch", "-D", "old")
    assert origin.run(prune=prune).code == 0
    assert origin.branches() == left


def test_what_a_forced_push_replaced_is_in_the_reflog(origin: Origin) -> None:
    origin.commit("two")
    origin.run()
    replaced = origin.commit("three")
    origin.run()
    origin.git("reset", "--quiet", "--hard", "HEAD~2")
    assert origin.run().code == 0
    assert replaced in origin.git("reflog", "show", "--format=%H", "main", at=origin.mirror)


@pytest.mark.parametrize("prune", ["no", "yes"])
def test_a_remote_that_was_emptied_changes_nothing_in_its_mirror(origin: Origin, prune: str) -> None:
    origin.run()
    origin.git("update-ref", "-d", "refs/heads/main")
    ended = origin.run(prune=prune)
    assert ended.code == 1
    assert "has no branch any more" in ended.out
    assert origin.branches() == ["main"]


def test_a_remote_that_does_not_answer_does_not_keep_the_others(origin: Origin) -> None:
    ended = origin.run("/nowhere/at/all.git", str(origin.path))
    assert ended.code == 1
    assert "does not answer" in ended.out
    assert origin.branches() == ["main"]


# --- dataset-fetch -------------------------------------------------------------------------------------------------

CONTENT = bytes(range(256)) * 400


@contextlib.contextmanager
def served(asked: list[str]) -> Iterator[str]:
    """The address of a server that gives CONTENT for any name but `gone`, from where it is asked to begin."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            span = self.headers.get("Range", "") if "always-whole" not in self.path else ""
            asked.append(f"{self.path} {span}".rstrip())
            begin = int(span.removeprefix("bytes=").rstrip("-") or 0)
            if self.path.startswith("/gone"):
                self.send_error(404)
                return
            if begin >= len(CONTENT):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206 if span else 200)
            if span:
                self.send_header("Content-Range", f"bytes {begin}-{len(CONTENT) - 1}/{len(CONTENT)}")
            self.send_header("Content-Length", str(len(CONTENT) - begin))
            self.end_headers()
            self.wfile.write(CONTENT[begin:])

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def fetch(place: Path, *urls: str, **settings: str) -> Ended:
    (place / "data").mkdir(exist_ok=True)
    wanted = {"URLS": f"({' '.join(urls)})", "FOLDER": f"'{place}/data'", **settings}
    return run(filled_in("dataset-fetch", place, **wanted), environment(place))


@NEEDS_TOOLS
@pytest.mark.parametrize("tool", ["wget", "curl"])
def test_a_download_goes_on_where_it_was_and_is_not_asked_for_again(tmp_path: Path, tool: str) -> None:
    asked: list[str] = []
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.bin.part").write_bytes(CONTENT[:1000])
    with served(asked) as address:
        urls = [f"{address}/a.bin", f"'{address}/b.bin?key=1&x=2'"]
        ended = fetch(tmp_path, *urls, TOOL=tool)
        assert ended.code == 0, ended.out
        assert (asked[0], len(asked)) == ("/a.bin bytes=1000-", 2)
        assert fetch(tmp_path, *urls, TOOL=tool).code == 0
        assert len(asked) == 2
    assert {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()} == {
        "a.bin": CONTENT,
        "b.bin": CONTENT,
    }


@NEEDS_TOOLS
def test_two_addresses_in_one_pair_of_quotes_are_not_one(tmp_path: Path) -> None:
    ended = fetch(tmp_path, URLS="'http://127.0.0.1:1/a.bin http://127.0.0.1:1/b.bin'")
    assert (ended.code, list((tmp_path / "data").iterdir())) == (2, []), ended.out
    assert "write each address by itself" in ended.last


@NEEDS_TOOLS
def test_of_two_addresses_of_one_name_the_second_is_not_said_to_be_there(tmp_path: Path) -> None:
    with served([]) as address:
        ended = fetch(tmp_path, f"{address}/train/a.bin", f"{address}/test/a.bin", f"{address}/train/a.bin")
    assert ended.code == 1, ended.out
    assert f"not fetched: {address}/test/a.bin would be {tmp_path}/data/a.bin, as {address}/train/a.bin is" in ended.out
    assert "2 of 3 files are in" in ended.last


@NEEDS_TOOLS
@pytest.mark.parametrize("tool", ["wget", "curl"])
def test_from_a_server_that_cannot_go_on_a_file_comes_whole(tmp_path: Path, tool: str) -> None:
    runs = {"wget": 1, "curl": 2}[tool]
    (tmp_path / "data").mkdir()
    (tmp_path / "data/always-whole.part").write_bytes(CONTENT[:1000])
    with served([]) as address:
        ended = [fetch(tmp_path, f"{address}/always-whole", TOOL=tool) for _ in range(runs)]
    assert [each.code for each in ended] == [1] * (runs - 1) + [0], ended
    assert (tmp_path / "data/always-whole").read_bytes() == CONTENT


@NEEDS_TOOLS
def test_a_checksum_decides_and_a_wrong_file_is_kept_aside(tmp_path: Path) -> None:
    asked: list[str] = []
    good = hashlib.sha256(CONTENT).hexdigest()
    (tmp_path / "sums").write_text(f"{good}  a.bin\n{'0' * 64} *b.bin\n", encoding="ascii")
    with served(asked) as address:
        for _ in range(2):
            ended = fetch(tmp_path, f"{address}/a.bin", f"{address}/b.bin", SUMS=f"'{tmp_path}/sums'")
            assert ended.code == 1, ended.out
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["a.bin", "b.bin.bad"]
    assert len(asked) == 2, "a wrong file is not downloaded every hour"


@NEEDS_TOOLS
def test_a_file_that_cannot_be_had_does_not_keep_the_others(tmp_path: Path) -> None:
    with served([]) as address:
        ended = fetch(tmp_path, f"{address}/gone.bin", f"{address}/a.bin")
    assert ended.code == 1
    assert "1 of 2 files are in" in ended.out
    assert (tmp_path / "data/a.bin").read_bytes() == CONTENT


def test_aria2c_is_called_with_options_that_it_has(tmp_path: Path) -> None:
    options = "--continue --auto-file-renaming --max-tries --retry-wait --summary-interval -o"
    calls = recording(tmp_path, "aria2c", options, 'while [ "$1" != -o ]; do shift; done; echo whole > "$2"')
    assert fetch(tmp_path, "https://host/a.bin", TOOL="aria2c").code == 0
    assert calls.read_text(encoding="utf-8").endswith("-o ./a.bin.part https://host/a.bin\n")
    assert (tmp_path / "data/a.bin").read_text(encoding="utf-8") == "whole\n"


# --- keepers, and what is at work until its time is up ----------------------------------------------------------------

WAITS = "echo $$ > {place}/pid; exec sleep 600"


class Kept:
    """A job that runs until it is told that its time is up."""

    def __init__(self, script: Path, place: Path, **environ: str) -> None:
        self.place = place
        self.process = subprocess.Popen(
            ["bash", str(script)],
            env={**environment(place), **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        until = time.monotonic() + 90
        while not ((place / "pid").exists() and (place / "pid").read_text(encoding="utf-8").strip()):
            assert self.process.poll() is None, self.process.communicate()[0]
            assert time.monotonic() < until
            time.sleep(0.05)

    def time_is_up(self) -> Ended:
        """What Slurm does with --signal=B:TERM@60."""
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=90)
        return Ended(self.process.returncode, out)

    def end(self) -> None:
        """Whatever is left of it; what has been waited for is no process of ours any more."""
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()


@contextlib.contextmanager
def kept(script: Path, place: Path, **environ: str) -> Iterator[Kept]:
    one = Kept(script, place, **environ)
    try:
        yield one
    finally:
        one.end()


SSH = "-N -T -o -L"
KEEPERS = {
    "jupyter-keep": ("jupyter", "--no-browser --ip --port --port-retries", {"FOLDER": "$HOME"}),
    "tunnel-keep": ("ssh", SSH, {"HOST": "me@host", "FORWARD": "(-L 5432:db:5432)"}),
    "workflow-run": (
        "snakemake",
        "--rerun-incomplete --keep-going --jobs",
        {"FOLDER": "$HOME", "OPTIONS": "(--jobs 5)"},
    ),
    "dataset-fetch": (
        "wget",
        "--continue --no-verbose --tries --waitretry --timeout -O",
        {"FOLDER": "$HOME", "URLS": "(http://host/a)"},
    ),
}


@pytest.mark.parametrize("job", KEEPERS)
def test_that_its_time_is_up_is_no_failure(tmp_path: Path, job: str) -> None:
    tool, options, settings = KEEPERS[job]
    recording(tmp_path, tool, options, WAITS.format(place=tmp_path))
    with kept(filled_in(job, tmp_path, **settings), tmp_path) as one:
        ended = one.time_is_up()
    assert ended.code == 0, ended.out
    assert "the job's time is up" in ended.out


@pytest.mark.parametrize("job", [job for job in KEEPERS if job != "dataset-fetch"])
def test_a_keeper_never_starts_two(tmp_path: Path, job: str) -> None:
    tool, options, settings = KEEPERS[job]
    calls = recording(tmp_path, tool, options, WAITS.format(place=tmp_path))
    script = filled_in(job, tmp_path, **settings)
    with kept(script, tmp_path):
        ended = run(script, environment(tmp_path))
    assert (ended.code, "is at it" in ended.out) == (0, True), ended.out
    assert len(calls.read_text(encoding="utf-8").splitlines()) == 1


QUEUES = {
    "another of its name began before": ("echo '100 5'; echo '200 7'", 0, "job 5 is at it"),
    "it began first, though its id is higher": ("echo '200 5'; echo '100 7'", 3, ""),
    "it is alone": ("echo '100 7'", 3, ""),
    "of two that began at once the lower id stays": ("echo '100 7'; echo '100 6'", 0, "job 6 is at it"),
    "ids are numbers": ("echo '100 7'; echo '100 10'", 3, ""),
    "the queue does not answer: unknown is not alone": ("exit 1", 2, "the queue is unknown"),
}


@pytest.mark.parametrize(("queue", "code", "words"), QUEUES.values(), ids=QUEUES)
def test_of_two_jobs_on_two_nodes_the_first_stays(tmp_path: Path, queue: str, code: int, words: str) -> None:
    """Slurm's word counts, whatever a lock on this node says, and whatever is in the job's environment."""
    recording(
        tmp_path, "squeue", "--noheader --user --name --states --format", f'[ -z "$SQUEUE_STATES" ] || exit 9\n{queue}'
    )
    stand_in(tmp_path, "snakemake", "exit 3")
    environ = environment(tmp_path, SLURM_JOB_ID="7", SLURM_JOB_NAME="mine", SQUEUE_STATES="PENDING")
    ended = run(filled_in("workflow-run", tmp_path, FOLDER="$HOME"), environ)
    assert ended.code == code, ended.out
    assert words in ended.out


# Another run began before, on another node: the variables of the job that asks, and what the system says.
GRID_ENGINES = """<job_info><queue_info><job_list state="running">
<JB_job_number>{}</JB_job_number>
<JB_name>{}</JB_name>
<JAT_start_time>2026-11-28T14:12:{}</JAT_start_time>
</job_list></queue_info></job_info>"""
BESIDE_SLURM: dict[str, tuple[dict[str, str], dict[str, str], str]] = {
    "Grid Engine": (
        {"SGE_JOB_SPOOL_DIR": "/x", "JOB_ID": "7", "JOB_NAME": "mine"},
        {"qstat": "cat <<'X'\n" + GRID_ENGINES.format(5, "mine", "40") + GRID_ENGINES.format(7, "mine", "44") + "\nX"},
        "job 5 is at it",
    ),
    "Grid Engine, a job of another name": (
        {"SGE_JOB_SPOOL_DIR": "/x", "JOB_ID": "7", "JOB_NAME": "mine"},
        {"qstat": "cat <<'X'\n" + GRID_ENGINES.format(5, "mine2", "40") + GRID_ENGINES.format(7, "mine", "44") + "\nX"},
        "",
    ),
    "Grid Engine, whose master is away": (
        {"SGE_JOB_SPOOL_DIR": "/x", "JOB_ID": "7", "JOB_NAME": "mine"},
        {"qstat": "echo '<comunication_error/>'"},
        "the queue is unknown",
    ),
    "PBS": (
        {"PBS_JOBID": "7.host", "PBS_JOBNAME": "mine"},
        {
            "qselect": "[ \"$5 $6\" = '-N mine' ] && printf '%s\n' 7.host 5.host",
            "qstat": "echo 'Job Id: 7.host|Job_Name=mine|stime=Sat Nov 28 14:12:44 2026|x=1'\n"
            "echo 'Job Id: 5.host|Job_Name=mine|stime=Sat Nov 28 14:12:40 2026|x=1'; exit 153",
        },
        "job 5 is at it",
    ),
    "PBS, which is away": (
        {"PBS_JOBID": "7.host", "PBS_JOBNAME": "mine"},
        {"qselect": "echo cannot connect >&2; exit 255"},
        "the queue is unknown",
    ),
    "LSF": (
        {"LSB_JOBID": "7", "LSB_JOBNAME": "mine"},
        {"bjobs": "[ \"$LSB_NTRIES $4 $5\" = '1 -J mine' ] && printf '%s\n' 'Nov 28 14:12|7' 'Nov 28 14:11|5'"},
        "job 5 is at it",
    ),
    "LSF, where none runs": (
        {"LSB_JOBID": "7", "LSB_JOBNAME": "mine"},
        {"bjobs": "echo 'Job <mine> is not found'; exit 255"},
        "",
    ),
    "LSF, which is away": (
        {"LSB_JOBID": "7", "LSB_JOBNAME": "mine"},
        {"bjobs": "echo 'LSF is down. Please wait ...'; exit 255"},
        "the queue is unknown",
    ),
    "this machine, whose jobs have Slurm's variables and no queue": ({"SLURM_JOB_ID": "7"}, {}, ""),
}


@pytest.mark.parametrize(("variables", "commands", "words"), BESIDE_SLURM.values(), ids=BESIDE_SLURM)
def test_of_two_jobs_beside_slurm_the_first_stays(
    tmp_path: Path, variables: dict[str, str], commands: dict[str, str], words: str
) -> None:
    for name, text in commands.items():
        stand_in(tmp_path, name, text)
    stand_in(tmp_path, "snakemake", "exit 3")
    for name in ("awk", "head", "id", "mkdir", "timeout"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or "")
    ended = run(filled_in("workflow-run", tmp_path, FOLDER="$HOME"), bare_environment(tmp_path) | variables)
    assert (ended.code, words in ended.out) == ({"": 3, "the queue is unknown": 2}.get(words, 0), True), ended.out


def test_what_a_workflow_submits_gets_nothing_of_this_job(tmp_path: Path) -> None:
    stand_in(tmp_path, "squeue", "echo '100 7'")
    stand_in(tmp_path, "snakemake", f"env | grep -E '^(SLURM|SBATCH)_' > {tmp_path}/seen; exit 0")
    mine = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "x", "SLURM_MEM_PER_CPU": "1", "SBATCH_PARTITION": "a"}
    environ = environment(tmp_path, **mine, SLURM_CONF="/etc/s.conf")
    ended = run(filled_in("workflow-run", tmp_path, FOLDER="$HOME"), environ)
    assert ended.code == 0, ended.out
    assert (tmp_path / "seen").read_text(encoding="utf-8") == "SLURM_CONF=/etc/s.conf\n"


def test_jupyter_has_its_token_from_a_private_file_and_not_on_its_command_line(tmp_path: Path) -> None:
    calls = recording(tmp_path, "jupyter", KEEPERS["jupyter-keep"][1], f'echo "$JUPYTER_TOKEN" > {tmp_path}/seen')
    script = filled_in("jupyter-keep", tmp_path, FOLDER="$HOME")
    for _ in range(2):
        ended = run(script, environment(tmp_path))
        assert ended.code == 0, ended.out
    token = (tmp_path / ".jupyter-keep.token").read_text(encoding="utf-8")
    assert mode(tmp_path / ".jupyter-keep.token") == 0o600
    assert (tmp_path / "seen").read_text(encoding="utf-8").strip() == token
    assert len(token) == 48
    assert token not in ended.out + calls.read_text(encoding="utf-8")
    (tmp_path / ".jupyter-keep.token").chmod(0o644)
    assert run(script, environment(tmp_path)).code == 2


def test_a_tunnel_that_fails_at_once_is_not_tried_for_ever(tmp_path: Path) -> None:
    calls = recording(tmp_path, "ssh", SSH, "exit 255")
    ended = run(filled_in("tunnel-keep", tmp_path, **KEEPERS["tunnel-keep"][2]), environment(tmp_path))
    assert (ended.code, len(calls.read_text(encoding="utf-8").splitlines())) == (1, 1), ended.out


WORKFLOWS = {
    "snakemake goes on": ({}, "snakemake", ["--rerun-incomplete --keep-going --jobs 5"]),
    "a lock that was left is removed where that was asked for": (
        {"UNLOCK": "yes"},
        "snakemake",
        ["--unlock --jobs 5", "--rerun-incomplete --keep-going --jobs 5"],
    ),
    "nextflow goes on": (
        {"TOOL": "nextflow", "PIPELINE": "main.nf", "OPTIONS": "(-profile slurm)"},
        "nextflow",
        ["run main.nf -resume -ansi-log false -profile slurm"],
    ),
}


@pytest.mark.parametrize(("settings", "tool", "expected"), WORKFLOWS.values(), ids=WORKFLOWS)
def test_a_workflow_goes_on(tmp_path: Path, settings: dict[str, str], tool: str, expected: list[str]) -> None:
    recording(tmp_path, "snakemake", "--unlock --rerun-incomplete --keep-going --jobs")
    recording(tmp_path, "nextflow", "-resume -ansi-log -profile")
    ended = run(
        filled_in("workflow-run", tmp_path, **{**KEEPERS["workflow-run"][2], **settings}), environment(tmp_path)
    )
    assert ended.code == 0, ended.out
    assert (tmp_path / f"{tool}.calls").read_text(encoding="utf-8").splitlines() == expected


# --- database-dump -------------------------------------------------------------------------------------------------


def dump(place: Path, **settings: str) -> Ended:
    (place / "dumps").mkdir(exist_ok=True)
    return run(filled_in("database-dump", place, FOLDER=f"'{place}/dumps'", **settings), environment(place))


def database(place: Path) -> Path:
    path = place / "my data.db"
    with contextlib.closing(sqlite3.connect(path)) as one:
        one.execute("create table t (x)")
        one.execute("insert into t values (42)")
        one.commit()
    return path


def dumps(place: Path) -> list[str]:
    return sorted(path.name for path in (place / "dumps").iterdir())


@NEEDS_TOOLS
def test_an_sqlite_database_is_dumped_while_it_is_in_use(tmp_path: Path) -> None:
    path = database(tmp_path)
    with contextlib.closing(sqlite3.connect(path)) as user:
        user.execute("select x from t").fetchone()
        ended = dump(tmp_path, DATABASE=f"'{path}'")
    assert ended.code == 0, ended.out
    [name] = dumps(tmp_path)
    assert mode(tmp_path / "dumps" / name) == 0o600
    with contextlib.closing(sqlite3.connect(tmp_path / "dumps" / name)) as copy:
        assert copy.execute("select x from t").fetchone() == (42,)


@NEEDS_TOOLS
def test_only_so_many_dumps_stay_and_nothing_else_goes(tmp_path: Path) -> None:
    path = database(tmp_path)
    (tmp_path / "dumps").mkdir()
    days = [f"my data.db.2026-01-0{day}T040000Z.sqlite" for day in range(1, 5)]
    others = ["my data.db.sqlite", "other.db.2026-01-01T040000Z.sqlite", "my data.db.2026-01-01T040000Z.mysql"]
    for name in (*days, *others):
        (tmp_path / "dumps" / name).write_text("x", encoding="utf-8")
    ended = dump(tmp_path, DATABASE=f"'{path}'", KEEP="3")
    assert ended.code == 0, ended.out
    left = set(dumps(tmp_path))
    assert set(others) < left
    assert set(days) & left == set(days[2:])
    assert len(left) == len(others) + 3


@NEEDS_TOOLS
def test_what_could_not_be_dumped_leaves_the_earlier_ones_and_nothing_half_done(tmp_path: Path) -> None:
    path = tmp_path / "broken.db"
    path.write_text("this is no database, and long enough to be read as one", encoding="utf-8")
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps/broken.db.2026-01-01T040000Z.sqlite").write_text("x", encoding="utf-8")
    ended = dump(tmp_path, DATABASE=f"'{path}'", KEEP="1")
    assert ended.code == 1, ended.out
    assert dumps(tmp_path) == ["broken.db.2026-01-01T040000Z.sqlite"]


SERVERS = {
    "postgres": ("pg_dump", "--no-password --format --file --dbname --host", "ok", 0),
    "postgres, cut off": ("pg_dump", "--no-password --format --file --dbname --host", "cut", 1),
    "mysql": (
        "mysqldump",
        "--single-transaction --routines --result-file --host",
        "-- Dump completed on 2026-01-01",
        0,
    ),
    "mysql, cut off": ("mysqldump", "--single-transaction --routines --result-file --host", "insert into", 1),
}


@pytest.mark.parametrize("which", SERVERS)
def test_a_servers_dump_is_checked_before_it_gets_its_name(tmp_path: Path, which: str) -> None:
    tool, options, text, code = SERVERS[which]
    written = f"for word; do case $word in --file=*|--result-file=*) echo '{text}' > \"${{word#*=}}\" ;; esac; done"
    for name in (tool, "mariadb-dump"):
        recording(tmp_path, name, options, written)
    recording(tmp_path, "pg_restore", "--list", '[ "$(cat "$2")" = ok ]')
    ended = dump(tmp_path, KIND=which.partition(",")[0], DATABASE="proj", OPTIONS="(--host=db)")
    assert ended.code == code, ended.out
    assert [name.partition(".")[0] for name in dumps(tmp_path)] == ["proj"] * (1 - code)


# --- tickets and tokens --------------------------------------------------------------------------------------------

KINIT = "-R -k -t -c"
TICKETS = {
    "it is renewed": ("exit 0", "exit 0", 0, "-R"),
    "it can be renewed no longer": ("exit 0", "exit 1", 1, "kinit -r 7d"),
    "there is none": ('[ "$1" != -s ]', "exit 9", 1, "there is no valid ticket"),
}


@pytest.mark.parametrize(("klist", "kinit", "code", "words"), TICKETS.values(), ids=TICKETS)
def test_a_ticket_is_renewed_or_made_anew(tmp_path: Path, klist: str, kinit: str, code: int, words: str) -> None:
    recording(tmp_path, "klist", "-s", klist)
    calls = recording(tmp_path, "kinit", KINIT, kinit)
    ended = run(filled_in("kerberos-renew", tmp_path), environment(tmp_path))
    assert ended.code == code, ended.out
    assert words in ended.out + (calls.read_text(encoding="utf-8") if calls.exists() else "")


@pytest.mark.parametrize(("rights", "code"), [(0o600, 0), (0o644, 2)])
def test_with_a_keytab_there_is_a_new_ticket_in_one_piece(tmp_path: Path, rights: int, code: int) -> None:
    keytab, ticket = tmp_path / "key", tmp_path / "ticket"
    keytab.write_text("secret", encoding="utf-8")
    keytab.chmod(rights)
    recording(tmp_path, "klist", "-s")
    recording(tmp_path, "kinit", KINIT, 'while [ "$1" != -c ]; do shift; done; echo new > "${2#FILE:}"')
    settings = {"TICKET": f"'{ticket}'", "KEYTAB": f"'{keytab}'", "PRINCIPAL": "me@EXAMPLE.ORG"}
    ended = run(filled_in("kerberos-renew", tmp_path, **settings), environment(tmp_path))
    assert (ended.code, ticket.exists()) == (code, code == 0), ended.out
    assert code or mode(ticket) == 0o600
    assert [path.name for path in tmp_path.glob("ticket.*")] == []


TOKENS = {
    "a new one": ("(echo new-token)", 0, "new-token\n"),
    "none was to be had": ("(false)", 1, "old"),
    "nothing was printed": ("(true)", 1, "old"),
    "there is no such command": ("(no-such-command)", 2, "old"),
}


@pytest.mark.parametrize(("command", "code", "left"), TOKENS.values(), ids=TOKENS)
def test_a_token_is_replaced_only_by_one_that_is_whole(tmp_path: Path, command: str, code: int, left: str) -> None:
    token = tmp_path / "token"
    token.write_text("old", encoding="utf-8")
    settings = {"COMMAND": command, "TOKEN_FILE": f"'{token}'"}
    ended = run(filled_in("token-renew", tmp_path, **settings), environment(tmp_path))
    assert (ended.code, token.read_text(encoding="utf-8")) == (code, left), ended.out
    assert "new-token" not in ended.out
    assert code or mode(token) == 0o600
    assert [path.name for path in tmp_path.glob("token.*")] == []


def test_no_token_is_left_in_a_folder_that_stands_where_its_file_should(tmp_path: Path) -> None:
    (tmp_path / "tokens").mkdir()
    settings = {"COMMAND": "(echo new-token)", "TOKEN_FILE": f"'{tmp_path}/tokens'"}
    ended = run(filled_in("token-renew", tmp_path, **settings), environment(tmp_path))
    assert (ended.code, list((tmp_path / "tokens").iterdir())) == (2, []), ended.out
    assert "is a folder: name a file in it" in ended.last


# --- notebooks, caches, reports ------------------------------------------------------------------------------------

PAPERMILL = "--log-output --no-progress-bar --cwd --kernel --parameters"
NOTEBOOKS = {"it ran": ("", 0, "report-*T*.ipynb"), "a cell failed": ("exit 1", 1, "report-*.failed.ipynb")}


@pytest.mark.parametrize(("ends", "code", "name"), NOTEBOOKS.values(), ids=NOTEBOOKS)
def test_a_notebook_is_run_and_what_it_showed_is_kept(tmp_path: Path, ends: str, code: int, name: str) -> None:
    (tmp_path / "report.ipynb").write_text("{}", encoding="utf-8")
    (tmp_path / "out").mkdir()
    calls = recording(tmp_path, "papermill", PAPERMILL, f'for last; do :; done; echo ran > "$last"\n{ends}')
    settings = {
        "NOTEBOOK": "$HOME/report.ipynb",
        "FOLDER": "$HOME/out",
        "PARAMETERS": "(alpha 0.6)",
        "KERNEL": "python3",
    }
    ended = run(filled_in("notebook-run", tmp_path, **settings), environment(tmp_path))
    assert ended.code == code, ended.out
    [kept_file] = (tmp_path / "out").iterdir()
    assert kept_file.match(name)
    assert f"--cwd {tmp_path} --kernel python3 --parameters alpha 0.6" in calls.read_text(encoding="utf-8")


@pytest.mark.parametrize("clean", ["no", "yes"])
def test_caches_are_emptied_only_where_that_was_asked_for(tmp_path: Path, clean: str) -> None:
    recording(tmp_path, "pip", "")
    recording(tmp_path, "uv", "")
    recording(tmp_path, "conda", "--tarballs --index-cache --dry-run --yes")
    recording(tmp_path, "apptainer", "--days --dry-run --force")
    ended = run(filled_in("cache-clean", tmp_path, CLEAN=clean), environment(tmp_path))
    assert ended.code == 0, ended.out
    calls = {
        tool: (tmp_path / f"{tool}.calls").read_text(encoding="utf-8").strip() for tool in ("pip", "conda", "apptainer")
    }
    dry = "--dry-run" if clean == "no" else ""
    assert calls == {
        "pip": "cache purge" if clean == "yes" else "cache info",
        "conda": " ".join(filter(None, ["clean --tarballs --index-cache", dry, "--yes"])),
        "apptainer": f"cache clean --days 30 {dry or '--force'}",
    }


def test_one_tool_that_fails_does_not_keep_the_others(tmp_path: Path) -> None:
    recording(tmp_path, "pip", "", "exit 1")
    calls = recording(tmp_path, "singularity", "--days --dry-run --force")
    recording(tmp_path, "conda", "--tarballs --index-cache --dry-run --yes")
    ended = run(filled_in("cache-clean", tmp_path, CLEAN="yes"), environment(tmp_path))
    assert ended.code == 1
    assert calls.exists()


SSHARE = "Account|User|NormShares|EffectvUsage|FairShare"
SHARES = {
    "a fair one": (
        "0",
        [" proj|{me}|0.25|0.5|0.42"],
        0,
        "proj: of it you have 25.0 % of the shares and 50.0 % of the use; your factor is 0.42",
    ),
    "a low one": ("0.5", [" proj|{me}|0.25|0.5|0.42", " other|{me}|0.1|0|0.9"], 1, "ALERT: proj is below 0.5"),
    "none of ones own": ("0", [" proj||0.25|0.5|"], 2, "has no fair share"),
    "a site where it does not count": ("0", [" proj|{me}||0.5|0.000000"], 2, "has no fair share"),
}


@pytest.mark.parametrize(("least", "rows", "code", "words"), SHARES.values(), ids=SHARES)
def test_a_fair_share_below_the_least_is_an_alert(
    tmp_path: Path, least: str, rows: list[str], code: int, words: str
) -> None:
    stand_in(tmp_path, "id", "echo me")
    text = "\n".join([SSHARE, *rows]).replace("{me}", "me")
    recording(tmp_path, "sshare", "--users --parsable2 --format", f"cat << 'EOF'\n{text}\nEOF")
    ended = run(filled_in("fair-share", tmp_path, LEAST=least), environment(tmp_path))
    assert (ended.code, words in ended.out) == (code, True), ended.out


def test_a_digest_comes_also_when_all_is_well(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert shell("init", "--backend", "local").code == 0
    stand_in(shell.home, "cronhpc", f'PYTHONPATH={JOBS.parent} exec {sys.executable} -m cronhpc "$@"')
    environ = environment(shell.home, CRONHPC_DIR=str(shell.cron))
    ended = run(filled_in("weekly-digest", shell.home, NOTIFY="'cat > $HOME/sent'"), environ)
    assert ended.code == 0, ended.out
    sent = (shell.home / "sent").read_text(encoding="utf-8")
    assert sent in ended.out
    assert "how it stands:" in sent
    shell.drop("cron.d/odd.slurm", "#CRON 99 4 * * *")
    ended = run(filled_in("weekly-digest", shell.home, NOTIFY="'cat > $HOME/sent'"), environ)
    assert ended.code == 0, "that something needs attention is what it tells of"
    assert "needs attention" in (shell.home / "sent").read_text(encoding="utf-8")
    ended = run(filled_in("weekly-digest", shell.home, NOTIFY="false"), environ)
    assert ended.code == 1
