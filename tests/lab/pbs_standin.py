"""PBS's commands over Grid Engine's: `pbs_standin.py qsub …`. What it does not know it refuses, as PBS does.

It stands for the parts of OpenPBS 23.06 that cronhpc uses, history off: so holds, begins and signals are real ones.
STANDIN_GE: the folder of Grid Engine's commands. STANDIN: a folder for itself; `limit` in it: no job is taken.
"""

# ruff: noqa: S314, T201 - it reads what Grid Engine prints, and prints

from __future__ import annotations

import getopt
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote, unquote
from xml.etree import ElementTree as ET

SERVER = "pbshost"
TASK = "^array_index^"
USAGE, UNKNOWN, STATE, DOWN, NO_LIST = 2, 153, 168, 162, 255
LIMIT = 38


def end(code: int, *words: str) -> NoReturn:
    print(*words, file=sys.stderr)
    sys.exit(code)


def options(program: str, short: str, argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Its options and what follows them; usage for others."""
    try:
        found, rest = getopt.getopt(list(argv), short)
    except getopt.GetoptError as error:
        end(USAGE, f"usage: {program} ({error})")
    return dict(found), rest


# --- Grid Engine ------------------------------------------------------------------------------------------------------


def asked(program: str, *words: str, given: str | None = None, down: int = DOWN) -> str:
    """What one of its commands printed; this one ends where it gives no answer."""
    argv = [f"{os.environ['STANDIN_GE']}/{program}", *words]
    done = subprocess.run(argv, input=given, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if any(each in said for each in ("unable to send message", "select error", "unable to contact", "timeout error")):
        end(down, f"Connection refused\n{program}: cannot connect to server {SERVER} (errno=111)")
    if done.returncode:
        end(1, said)
    return done.stdout


def listed(user: str, down: int) -> tuple[str, str]:
    """Its two answers about the jobs of a user."""
    jobs = asked("qstat", "-xml", "-u", user, down=down)
    numbers = sorted({each.text or "" for each in ET.fromstring(jobs).iter("JB_job_number")})
    return jobs, asked("qstat", "-xml", "-j", ",".join(numbers), down=down) if numbers else "<none/>"


def rows(jobs: str, details: str, now: float) -> dict[str, dict[str, Any]]:
    """Its answers as PBS's: facts by name, an array with its tasks."""
    known = {each.findtext("JB_job_number"): each for each in ET.fromstring(details).iterfind("djob_info/element")}
    found: dict[str, dict[str, Any]] = {}
    for each in ET.fromstring(jobs).iter("job_list"):
        number = each.findtext("JB_job_number") or ""
        if number not in known:
            continue  # it has ended between the two
        tasks = [
            str(task)
            for first, last, step in re.findall(r"(\d+)(?:-(\d+):(\d+))?", each.findtext("tasks") or "")
            for task in range(int(first), int(last or first) + 1, int(step or 1))
        ]
        facts = one(each, known[number], now)
        if not tasks:
            found[f"{number}.{SERVER}"] = facts
            continue
        whole = found.setdefault(f"{number}[].{SERVER}", {**facts, "array": "True"})
        whole["job_state"] = facts["job_state"] if facts["job_state"] == whole["job_state"] in {"H", "W", "Q"} else "B"
        for task in tasks:
            held = facts["job_state"] == "H"
            found[f"{number}[{task}].{SERVER}"] = {**facts, "job_state": "Q" if held else facts["job_state"]}
    return found


def one(job: ET.Element, more: ET.Element, now: float) -> dict[str, Any]:
    """A job as `qstat -f -F json` of PBS has it."""
    state = job.findtext("state") or ""
    context = {each.findtext("VA_variable"): each.findtext("VA_value") for each in more.iter("context_list")}
    own = json.loads(unquote(context.get("pbs") or "{}"))
    begin = int(more.findtext("JB_execution_time") or 0)
    waits = "q" in state
    letter = "H" if "h" in state else "W" if waits and begin > now else "Q" if waits else "E" if "d" in state else "R"
    paths = [each.findtext("PN_path") or "" for each in more.iterfind("JB_stdout_path_list/path_list")]
    log = paths[0].removeprefix(":").replace("$TASK_ID", TASK) if paths else ""
    facts = {
        "Job_Name": looks(own.get("name") or job.findtext("JB_name") or ""),
        "Job_Owner": f"{more.findtext('JB_owner')}@{SERVER}",
        "job_state": letter,
        "queue": "workq",
        "server": SERVER,
        "ctime": text(int(more.findtext("JB_submission_time") or 0)),
        "Hold_Types": "u" if "h" in state else "n",
        "Output_Path": f"{SERVER}:{log}",
        "Variable_List": {"PBS_O_WORKDIR": own.get("cwd", ""), **{k: looks(v) for k, v in own.get("v", {}).items()}},
        "Submit_arguments": own.get("argv", ""),
    }
    if letter in {"H", "W"} and begin > now:
        facts["Execution_Time"] = text(begin)
    if letter in {"R", "E"}:
        start = datetime.fromisoformat(job.findtext("JAT_start_time") or "").replace(tzinfo=UTC)
        facts |= {"stime": text(start.timestamp()), "exec_host": "localhost/0", "run_count": 1}
    return facts


def text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%a %b %e %H:%M:%S %Y")


def looks(value: str) -> Any:
    """A text as what it looks like: PBS prints 007 as 7, and true as a truth."""
    try:
        return float(value) if "e" in value or "." in value else int(value)
    except ValueError:
        return {"true": True, "false": False, "{}": {}}.get(value, value)


# --- PBS's commands ---------------------------------------------------------------------------------------------------


def qsub(argv: Sequence[str]) -> None:
    given, rest = options("qsub", "fhr:N:v:a:o:e:k:j:S:J:l:W:q:A:", argv)
    if rest or "-f" not in given:
        end(USAGE, "usage: qsub: the stand-in takes a script on standard input, and -f")
    script = sys.stdin.read()
    if "\r\n" in script:
        end(1, "qsub: script contains cr, lf")
    if any(quote_ in given.get("-v", "") for quote_ in "'\""):
        end(1, "qsub: cannot send environment with the job")
    if "-J" in given and given.get("-r") == "n":
        end(1, "qsub: cannot submit non-rerunable Array Job")
    if (Path(os.environ["STANDIN"]) / "limit").exists():
        end(LIMIT, "qsub: would exceed complex's per-user limit of jobs in 'Q' state")
    variables = dict(pair.split("=", 1) for pair in given.get("-v", "").split(",") if "=" in pair)
    own: dict[str, Any] = {
        "name": given.get("-N", "STDIN"),
        "cwd": str(Path.cwd()),
        "v": variables,
        "argv": " ".join(argv),
    }
    name = f"n{own['name']}" if own["name"][0].isdigit() else own["name"]
    words = ["-terse", "-S", "/bin/bash", "-r", "n", "-N", name, "-ac", f"pbs={quote(json.dumps(own), safe='')}"]
    words += ["-h"] if "-h" in given else []
    words += ["-a", given["-a"]] if "-a" in given else []
    words += ["-o", path(given["-o"]), "-j", "y"] if "-o" in given else ["-o", "/dev/null", "-j", "y"]
    words += ["-wd", os.environ.get("HOME", "/"), "-C", ""]
    array = re.fullmatch(r"(\d+-\d+(?::\d+)?)(?:%(\d+))?", given.get("-J", ""))
    words += ["-t", array[1]] if array else []
    words += ["-tc", array[2]] if array and array[2] else []
    first, _, body = re.sub("# stand-in {.*?# }\n", "", script, flags=re.DOTALL).partition("\n")
    sets = "".join(f"export {key}={value!r}\n" for key, value in variables.items())
    printed = asked("qsub", *words, given=f"{first}\n# stand-in {{\n{sets}{in_job()}# }}\n{body}")
    number, dot, _ = printed.strip().partition(".")
    print(f"{number}[].{SERVER}" if dot else f"{number}.{SERVER}")


def in_job() -> str:
    """What makes a job of Grid Engine's know itself as PBS's do."""
    return f"""\
export PBS_JOBID="$JOB_ID.{SERVER}"; unset RESTARTED QUEUE
if [ "$SGE_TASK_ID" != undefined ]; then
  export PBS_ARRAY_INDEX=$SGE_TASK_ID PBS_JOBID="$JOB_ID[$SGE_TASK_ID].{SERVER}"
fi
echo $$ >"{os.environ["STANDIN"]}/$PBS_JOBID"; unset JOB_ID SGE_TASK_ID
"""


def path(log: str) -> str:
    return log.replace(TASK, "$TASK_ID")


def qselect(argv: Sequence[str]) -> None:
    given, _ = options("qselect", "u:", argv)
    for name in rows(*listed(given["-u"], DOWN), time.time()):
        if not re.search(r"\[\d+\]", name):
            print(name)


def qstat(argv: Sequence[str]) -> None:
    given, names = options("qstat", "xtfBF:D:", argv)
    names = [whole_name(each) for each in names]
    if given.get("-F") not in {"json", "dsv"} or "-f" not in given:
        end(USAGE, "usage: qstat: the stand-in knows -f -F json, and -f -F dsv -D '|'")
    if "-x" in given:
        print("qstat: PBS is not configured to maintain job history", file=sys.stderr)
        return
    if not names and "-B" not in given:
        end(99, "qstat: this would list everybody's jobs")
    there = rows(*listed("*", NO_LIST), time.time())
    document: dict[str, Any] = {"timestamp": int(time.time()), "pbs_version": "23.06.06", "pbs_server": SERVER}
    shown = {name: facts for name, facts in there.items() if any(same(name, each, given) for each in names)}
    if "-B" in given:
        document["Server"] = {SERVER: {"server_state": "Active"}}
    elif shown:
        document["Jobs"] = shown
    print(json.dumps(document) if given["-F"] == "json" else "\n".join(dsv(*each) for each in shown.items()))
    lost = [each for each in names if each not in there]
    if lost:
        end(UNKNOWN, "\n".join(f"qstat: Unknown Job Id {each}" for each in lost))


def dsv(name: str, facts: dict[str, Any]) -> str:
    """A job as `qstat -f -F dsv -D '|'` has it."""
    listed = {
        key: ",".join(f"{k}={v}" for k, v in each.items()) if isinstance(each, dict) else each
        for key, each in facts.items()
    }
    return "|".join([f"Job Id: {name}", *(f"{key}={value}" for key, value in listed.items())])


def whole_name(name: str) -> str:
    """An id without its server, which is the one that there is."""
    return name if "." in name else f"{name}.{SERVER}"


def same(name: str, given: str, flags: dict[str, str]) -> bool:
    return name == given or ("-t" in flags and re.sub(r"\[\d+\]", "[]", name) == given)


def each_of(program: str, names: Sequence[str], act: Callable[[str, dict[str, Any]], None]) -> None:
    """Do it to each that is there; unknown ones do not keep the others from it."""
    there = rows(*listed("*", DOWN), time.time())
    wrong = 0
    for name in map(whole_name, names):
        whole = re.sub(r"\[[\d-]*\]", "[]", name)
        if whole not in there:
            print(f"{program}: Unknown Job Id {name}", file=sys.stderr)
            wrong = UNKNOWN
        elif (program in {"qalter", "qhold"} and there[whole]["job_state"] in {"R", "E"}) or (
            program == "qsig" and there[name]["job_state"] != "R"
        ):
            print(f"{program}: Request invalid for state of job {name}", file=sys.stderr)
            wrong = STATE
        else:
            act(name, there[whole])
    sys.exit(wrong)


def number(name: str) -> str:
    """`7[2-4].pbshost` as Grid Engine has it."""
    found = re.match(r"(\d+)(?:\[([\d-]*)\])?", name)
    assert found
    return f"{found[1]}.{found[2]}" if found[2] else found[1]


def qalter(argv: Sequence[str], program: str = "qalter") -> None:
    given, names = options(program, "a:o:h:", argv)
    words = ["-a", given["-a"]] if "-a" in given else []
    words += ["-o", path(given["-o"])] if "-o" in given else []
    words += ["-h", {"u": "u", "n": "U"}[given["-h"]]] if "-h" in given else []
    if any(re.search(r"\[\d", name) for name in names):
        end(USAGE, f"{program}: illegal job identifier: single tasks cannot be held")
    each_of(program, names, lambda name, _: (asked("qalter", *words, number(name)), None)[1])


def qhold(argv: Sequence[str]) -> None:
    qalter(["-h", "u", *argv], "qhold")


def qrls(argv: Sequence[str]) -> None:
    qalter(["-h", "n", *argv], "qrls")


def qdel(argv: Sequence[str]) -> None:
    _, names = options("qdel", "", argv)
    each_of("qdel", names, lambda name, _: (asked("qdel", number(name)), None)[1])


def qsig(argv: Sequence[str]) -> None:
    given, names = options("qsig", "s:", argv)

    def send(name: str, _: dict[str, Any]) -> None:
        pid = int((Path(os.environ["STANDIN"]) / name).read_text(encoding="utf-8"))
        os.killpg(os.getpgid(pid), signal.Signals[f"SIG{given['-s']}"])

    each_of("qsig", names, send)


COMMANDS = {each.__name__: each for each in (qsub, qselect, qstat, qalter, qhold, qrls, qdel, qsig)}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](sys.argv[2:])
