"""`cronhpc guard`: it passes everything through, until a switch is set; then nothing of the command is left."""

import os
import shlex
import signal
import subprocess  # noqa: TID251 - the guard is run as a job runs it
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cronhpc.core import stop
from cronhpc.inside import guard
from cronhpc.inside.guard import STOPPED_EXIT

pytestmark = pytest.mark.processes

GUARD = [sys.executable, "-m", "cronhpc.inside.guard"]
KILL_SWITCH_SH = Path(__file__).parents[2] / "deploy" / "kill-switch.sh"
FAST = ["--every", "0.05s"]


class Place:
    """A folder with a switch, and commands that say when they are ready."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.switch = folder / "switch"
        self.ready = folder / "ready"
        self.environ = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "CRONHPC_", "WORK"))}
        self.environ |= {"PYTHONPATH": str(Path(__file__).parents[2]), "HOME": str(folder), "LC_ALL": "C"}
        self.started: list[subprocess.Popen[str]] = []

    def start(self, options: list[str], command: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*GUARD, "--kill-switch", str(self.switch), *FAST, *options, "--", *command],
            env=self.environ, cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=ordinary_signals,  # noqa: PLW1509 - no thread is about
        )  # fmt: skip
        self.started.append(process)
        return process

    def run(self, options: list[str], command: list[str]) -> tuple[int, str, str]:
        return ended(self.start(options, command))

    def bash(self, options: list[str], script: str) -> subprocess.Popen[str]:
        """Returns when the script has said so with `touch ready`."""
        process = self.start(options, ["bash", "-c", script])
        wait_for(self.ready.exists)
        return process


def ordinary_signals() -> None:
    """What a shell starts in the background ignores these two, and so do its children."""
    for each in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(each, signal.SIG_DFL)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=90)
    return process.returncode, out, err


def wait_for(condition: object, limit: float = 60) -> None:
    assert callable(condition)
    until = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.01)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    for process in place.started:
        if process.poll() is None:
            process.kill()
        process.wait()


# --- passing through


CODES = {
    "a success": ("true", 0),
    "a failure": ("exit 7", 7),
    "the highest code": ("exit 255", 255),
    "an end by a signal": ("kill -USR1 $$", 128 + signal.SIGUSR1),
    "an end by KILL": ("kill -KILL $$", 128 + signal.SIGKILL),
}


@pytest.mark.parametrize(("script", "code"), CODES.values(), ids=CODES)
def test_the_commands_exit_code_is_the_guards(place: Place, script: str, code: int) -> None:
    assert place.run([], ["bash", "-c", script]) == (code, "", "")


def test_arguments_output_and_input_pass_as_they_are(place: Place) -> None:
    words = ["--grace", "--", "a b", "$HOME", "*", "é", ""]
    code, out, err = place.run([], ["printf", "<%s>", *words])
    assert (code, out, err) == (0, "".join(f"<{word}>" for word in words), "")
    done = subprocess.run(
        [*GUARD, "--kill-switch", str(place.switch), "--", "cat"],
        input="hello", capture_output=True, text=True, env=place.environ, check=True,
    )  # fmt: skip
    assert done.stdout == "hello"


def test_a_command_that_is_not_there_is_127_and_one_that_cannot_run_126(place: Place) -> None:
    assert place.run([], ["no-such-command"])[0] == 127
    (place.folder / "plain").write_text("x")
    code, _, err = place.run([], ["./plain"])
    assert code == 126
    assert "./plain: Permission denied" in err


@pytest.mark.parametrize("name", ["HUP", "INT", "TERM", "USR1", "CONT"])
def test_signals_are_passed_on(place: Place, name: str) -> None:
    script = f"trap 'echo got {name}; exit 3' {name}; touch ready; while :; do sleep 0.02; done"
    process = place.bash([], script)
    process.send_signal(signal.Signals[f"SIG{name}"])
    code, out, _ = ended(process)
    assert (code, out) == (3, f"got {name}\n")


def test_signals_that_come_too_late_do_not_change_the_exit_code(place: Place) -> None:
    process = place.start([], ["bash", "-c", "trap 'exit 4' TERM; touch ready; while :; do sleep 0.02; done"])
    wait_for(place.ready.exists)
    for _ in range(3):
        process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 4


def test_the_command_starts_with_ordinary_signals(place: Place) -> None:
    masks = place.run([], ["grep", "-E", "SigBlk|SigIgn", "/proc/self/status"])[1].split()
    ordinary = (1 << 31) - 1  # the C library ignores two of its own beyond
    assert [int(mask, 16) & ordinary for mask in masks[1::2]] == [0, 0]


def test_a_parent_that_ignores_sigchld_does_not_lose_the_exit_code(place: Place) -> None:
    words = shlex.join([*GUARD, "--kill-switch", str(place.switch), "--", "bash", "-c", "exit 9"])
    code = f"import os, signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execvp('sh', ['sh', '-c', {words!r}])"
    done = subprocess.run([sys.executable, "-c", code], env=place.environ, check=False, timeout=20)
    assert done.returncode == 9


def test_children_left_behind_by_a_command_that_ended_are_not_touched(place: Place) -> None:
    _, out, _ = place.run([], ["bash", "-c", "sleep 3 > /dev/null 2>&1 & echo $!"])
    assert running(int(out))
    os.kill(int(out), signal.SIGKILL)


# --- stopping


def test_nothing_starts_while_the_switch_is_set(place: Place) -> None:
    place.switch.write_text("loss spikes\n")
    code, out, err = place.run([], ["touch", "started"])
    assert code == STOPPED_EXIT
    assert not (place.folder / "started").exists()
    assert out == ""
    assert "cronhpc guard: not started: stopped by " in err
    assert f'({place.switch}: "loss spikes")' in err


def test_the_code_for_stopped_is_nobody_elses() -> None:
    """113 is in scripts of users; 126 and more is a shell's, 0 to 2 a command's own."""
    assert STOPPED_EXIT == stop.STOPPED_EXIT == 113


def test_a_switch_ends_the_command_which_may_save_its_work(place: Place) -> None:
    process = place.bash([], "trap 'touch saved; exit 0' TERM; touch ready; while :; do sleep 0.02; done")
    place.switch.write_text("why \x1b[31mnot")
    code, _, err = ended(process)
    assert code == STOPPED_EXIT
    assert (place.folder / "saved").exists()
    assert "sending TERM, KILL in 300 s" in err
    assert "ended after 0." in err
    assert "why not" in err
    assert "\x1b" not in err


def test_the_whole_process_group_ends_also_what_ignores_the_signal(place: Place) -> None:
    script = (
        "trap '' TERM\n"
        "for i in 1 2 3; do (trap '' TERM; while :; do sleep 0.05; done) & echo $! >> pids; done\n"
        "(bash -c 'echo $$ >> pids; exec sleep 300') & \n"
        "while [ $(wc -l < pids) -lt 4 ]; do sleep 0.01; done\n"
        "touch ready; wait; sleep 300"
    )
    process = place.bash(["--grace", "0.3"], script)
    pids = [int(line) for line in (place.folder / "pids").read_text().split()]
    assert len(pids) == 4
    place.switch.touch()
    code, _, err = ended(process)
    assert code == STOPPED_EXIT
    assert "did not end within 0.3 s, killed" in err
    assert not any(map(running, pids))


def test_children_that_outlive_their_parent_end_too(place: Place) -> None:
    script = "(trap '' TERM; echo $BASHPID > pid; touch ready; while :; do sleep 0.05; done) & wait"
    process = place.bash(["--grace", "0.3"], script)
    place.switch.touch()
    assert ended(process)[0] == STOPPED_EXIT
    pid = int((place.folder / "pid").read_text())
    wait_for(lambda: not running(pid), limit=5)  # a kill is sent before the system has ended it


def test_the_grace_ends_as_soon_as_all_is_gone(place: Place) -> None:
    process = place.bash(["--grace", "1h"], "touch ready; sleep 300")
    began = time.monotonic()
    place.switch.touch()
    assert ended(process)[0] == STOPPED_EXIT
    assert time.monotonic() - began < 60


def test_the_signal_can_be_chosen(place: Place) -> None:
    process = place.bash(
        ["--signal", "usr1"], "trap 'echo saved; exit' USR1; touch ready; while :; do sleep 0.02; done"
    )
    place.switch.touch()
    code, out, _ = ended(process)
    assert (code, out) == (STOPPED_EXIT, "saved\n")


def test_any_of_several_switches_ends_it(place: Place) -> None:
    other = place.folder / "other"
    process = place.bash(["--kill-switch", str(other)], "touch ready; sleep 300")
    other.touch()
    code, _, err = ended(process)
    assert code == STOPPED_EXIT
    assert str(other) in err


def test_an_expired_switch_stops_nothing(place: Place) -> None:
    place.switch.write_text("expires: 2020-01-01")
    assert place.run([], ["true"])[0] == 0


def test_a_switch_that_cannot_be_looked_at_is_said_once_and_stops_nothing(place: Place) -> None:
    place.switch = place.folder / "not mounted" / "switch"
    code, _, err = place.run([], ["sleep", "0.4"])
    assert code == 0
    assert err.count("cannot tell whether") == 1
    assert "No such file or directory. Going on." in err


def test_several_guards_of_one_job_all_end(place: Place) -> None:
    guards = [place.start([], ["bash", "-c", f"touch ready{n}; sleep 300"]) for n in range(4)]
    wait_for(lambda: all((place.folder / f"ready{n}").exists() for n in range(4)))
    place.switch.touch()
    assert [ended(guard)[0] for guard in guards] == [STOPPED_EXIT] * 4


# --- mistakes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "there is no command"),
        (["--"], "there is no command"),
        (["--grace", "soon", "--", "true"], "'soon' is no time. Write it as 90s, 10m or 1h30m."),
        (["--signal", "FOO", "--", "true"], "'FOO' is no signal."),
        (["--kill-switch", "x", "--", "true"], "is no cron directory"),
    ],
)
def test_a_mistake_is_said_and_starts_nothing(place: Place, words: list[str], said: str) -> None:
    done = subprocess.run([*GUARD, *words], env=place.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr


# --- before the job's own end


def fake_slurm(place: Place, *ends: str, partition: str = "PreemptMode=OFF") -> None:
    """Answers what the guard asks of job 77 with one end after the other, the last one for ever; refuses all else."""
    (place.folder / "ends").write_text("".join(f"{end}\n" for end in ends))
    (place.folder / "bin").mkdir()
    head = f"#!/bin/bash\n[[ $SLURM_TIME_FORMAT == %s && -z $SQUEUE_FORMAT ]] || exit 9\ncd {place.folder} || exit 9\n"
    squeue = (
        '[[ "$*" == "-h -j 77 -o %e" ]] || exit 9\nhead -n 1 ends\n'
        "[[ $(wc -l < ends) -gt 1 ]] && sed -i 1d ends\nexit 0\n"
    )
    scontrol = f'[[ "$*" == "-o show partition cpu" ]] || exit 9\necho "PartitionName=cpu {partition}"\n'
    for name, text in (("squeue", squeue), ("scontrol", scontrol)):
        tool = place.folder / "bin" / name
        tool.write_text(head + text)
        tool.chmod(0o755)
    place.environ |= {
        "PATH": f"{place.folder / 'bin'}:{place.environ['PATH']}",
        "SLURM_JOB_ID": "77",
        "SLURM_JOB_PARTITION": "cpu",
        "SQUEUE_FORMAT": "%i",
    }


WARNED = "trap 'echo warned; exit 6' USR1; touch ready; while :; do sleep 0.02; done"
BEFORE = ["--warn-before-end", "10m", "--signal", "USR1"]
UNKNOWN = ["", "NONE", "N/A", "Unlimited"]


@pytest.mark.parametrize("answer", ["1795737610", *UNKNOWN])
def test_squeue_is_asked_for_the_end(place: Place, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_slurm(place, answer)
    monkeypatch.setenv("PATH", place.environ["PATH"])
    assert guard.end_of_job(place.environ) == (None if answer in UNKNOWN else int(answer))


def test_without_slurm_it_is_said_and_the_command_runs(place: Place) -> None:
    place.environ["SLURM_JOB_ID"] = "77"
    place.environ["PATH"] = "/nowhere"
    code, _, err = place.run(BEFORE, ["/bin/true"])
    assert code == 0
    assert "Slurm does not say" in err


def test_preemptions_term_becomes_the_warning_and_comes_itself_after_the_grace(place: Place) -> None:
    fake_slurm(place, str(int(time.time()) + 7200))  # noqa: TID251 - an end that is far
    script = "trap 'echo warned' USR1; trap 'echo term; exit 5' TERM; touch ready; while :; do sleep 0.02; done"
    process = place.bash([*BEFORE, "--grace", "0.4"], script)
    process.send_signal(signal.SIGTERM)
    code, out, err = ended(process)
    assert (code, out) == (5, "warned\nterm\n")
    assert "the job was told to end: sending USR1" in err


def test_preemptions_nearer_end_is_asked_for_when_cont_comes(place: Place) -> None:
    now = int(time.time())  # noqa: TID251 - an end that is near
    fake_slurm(place, str(now + 7200), str(now + 600), partition="PreemptMode=CANCEL GraceTime=30")
    process = place.bash(BEFORE, WARNED)
    process.send_signal(signal.SIGCONT)
    assert ended(process)[:2] == (6, "warned\n")


ASKING = {
    "no preemption here": ("PreemptMode=OFF GraceTime=30", None),
    "preemption without a warning": ("GraceTime=0 PreemptMode=CANCEL", None),
    "a grace of 3 minutes": ("GraceTime=180 PreemptMode=REQUEUE", 60.0),
    "a grace of a minute": ("GraceTime=60 PreemptMode=REQUEUE", 20.0),
    "a grace of an hour": ("GraceTime=3600 PreemptMode=REQUEUE", 60.0),
    "hardly any grace": ("GraceTime=5 PreemptMode=REQUEUE", 10.0),
    "no answer": ("", None),
}


@pytest.mark.parametrize(("shown", "every"), ASKING.values(), ids=ASKING)
def test_how_often_the_end_is_asked_for_depends_on_the_partition(
    place: Place, shown: str, every: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_slurm(place, "1", partition=shown)
    monkeypatch.setenv("PATH", place.environ["PATH"])
    assert guard.ask_every(place.environ) == every


def test_the_grace_of_a_qos_counts_where_the_partition_has_none(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_slurm(place, "1", partition="GraceTime=0 PreemptMode=CANCEL")
    tool = place.folder / "bin" / "sacctmgr"
    tool.write_text('#!/bin/bash\n[[ "$*" == "-nP show qos name=low format=GraceTime" ]] && echo 00:01:30\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", place.environ["PATH"])
    environ = {**place.environ, "SLURM_JOB_QOS": "low"}
    assert guard.ask_every(environ) == 30.0


# --- for jobs without Python


def sourced(place: Place, script: str) -> subprocess.Popen[str]:
    text = f"set -eu\nsource {shlex.quote(str(KILL_SWITCH_SH))}\n{script}"
    process = subprocess.Popen(
        ["bash", "-c", text],
        env=place.environ | {"KILL_SWITCH_EVERY": "0.05", "KILL_SWITCH_GRACE": "1"},
        cwd=place.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    place.started.append(process)
    return process


@pytest.mark.parametrize(("script", "code"), CODES.values(), ids=CODES)
def test_in_bash_the_exit_code_passes_through(place: Place, script: str, code: int) -> None:
    got, _, _ = ended(sourced(place, f"guarded switch -- bash -c {shlex.quote(script)}"))
    assert got == code


def test_in_bash_a_switch_ends_the_whole_group(place: Place) -> None:
    inner = (
        "trap '' TERM; (trap '' TERM; echo $BASHPID > pid; touch ready; while :; do sleep 0.05; done) & wait; sleep 99"
    )
    process = sourced(place, f"guarded switch -- bash -c {shlex.quote(inner)}")
    wait_for(place.ready.exists)
    place.switch.touch()
    code, _, err = ended(process)
    assert code == STOPPED_EXIT
    assert "guarded: kill switch ./switch, set by " in err
    pid = int((place.folder / "pid").read_text())
    wait_for(lambda: not running(pid), limit=5)  # a kill is sent before the system has ended it


def test_in_bash_a_watcher_that_never_hears_of_the_end_is_not_waited_for_for_ever(place: Place) -> None:
    """Of some thousand commands that end at once one meets a watcher whose trap is not set yet."""
    lost = 'kill() { [[ $* == "-s TERM $watcher" ]] || builtin kill "$@"; }'
    assert ended(sourced(place, f"{lost}\nguarded switch -- true"))[0] == 0


def test_in_bash_nothing_starts_while_the_switch_is_set(place: Place) -> None:
    place.switch.symlink_to("/nowhere")
    code, _, err = ended(sourced(place, "guarded other switch -- touch started"))
    assert code == STOPPED_EXIT
    assert "guarded: not started: kill switch ./switch" in err
    assert not (place.folder / "started").exists()


def test_in_bash_signals_are_passed_on_and_own_traps_stay(place: Place) -> None:
    inner = "trap 'echo got; exit 3' USR1; touch ready; while :; do sleep 0.02; done"
    process = sourced(place, f"trap 'echo mine' USR1\nguarded switch -- bash -c {shlex.quote(inner)} || kill -USR1 $$")
    wait_for(place.ready.exists)
    process.send_signal(signal.SIGUSR1)
    assert ended(process)[1] == "got\nmine\n"


def test_in_bash_a_mistake_is_said(place: Place) -> None:
    assert ended(sourced(place, "guarded switch touch x"))[0] == 2
