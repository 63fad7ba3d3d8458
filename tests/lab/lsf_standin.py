"""A stand-in for LSF's commands: `lsf_standin.py bsub|bjobs|bkill|bmod|bresume|bstop|bhist|lsid ARGUMENTS`.

Jobs are processes of this machine; what they are lies in $LSF_ENVDIR. There is no daemon: each command first starts
what may start. It refuses every option that it does not know. What LSF does to its users it does where a file of that
name lies in the folder:

  down        commands wait for ever; with LSB_NTRIES=1 they end with 255
  frozen      commands wait; what bsub has sent is accepted once the file is gone, whether bsub lives or not
  slow        the same of bsub alone: others answer, and do not know the job yet
  deaf        bsub's job is accepted, and its answer is lost: it waits
  limit       bsub says so, and waits
  old         bjobs knows no -json, and -b no year: a minute that has passed is next year's
  notices     its text is printed before the answer of bsub
  none        what bjobs exits with where there is no job: 254, 255 or 0; 255 if there is no such file
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, TextIO

HOME = Path(os.environ["LSF_ENVDIR"])
STATE = HOME / "state.json"
LONGEST_DESCRIPTION = 4094
QUEUES = {"normal", "short"}
VALUED = {"-J", "-Jd", "-b", "-cwd", "-o", "-oo", "-e", "-q", "-P", "-W", "-R", "-n", "-M", "-env"}
FLAGS = {"-H", "-r", "-rn"}
Job = dict[str, Any]


def say(text: str, where: TextIO = sys.stdout) -> None:
    where.write(f"{text}\n")
    where.flush()


def end(text: str, code: int = 255) -> NoReturn:
    say(text, sys.stderr)
    sys.exit(code)


@contextlib.contextmanager
def held() -> Iterator[dict[str, Any]]:
    """What is known, for one command at a time; written back."""
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = json.loads(STATE.read_text()) if STATE.exists() else {"next": 7, "jobs": []}
        yield known
        STATE.with_suffix(".new").write_text(json.dumps(known))
        STATE.with_suffix(".new").rename(STATE)


def on(name: str) -> bool:
    return (HOME / name).exists()


def wait_for_ever() -> NoReturn:
    while True:
        time.sleep(60)


def reach_master() -> None:
    """Return once the master answers."""
    while on("frozen"):
        time.sleep(0.1)
    if on("down"):
        if os.environ.get("LSB_NTRIES") == "1":
            end("Failed in an LSF library call: Cannot connect to LSF. Please wait ...")
        say("batch system daemon not responding ... still trying", sys.stderr)
        wait_for_ever()


def start_what_may(known: dict[str, Any]) -> None:
    """Take in what was sent while the master was frozen, and start what is due."""
    for sent in [] if on("slow") else sorted(HOME.glob("sent.*")):
        accept(known, json.loads(sent.read_text()))
        sent.unlink()
    running: dict[int, int] = {}
    for job in known["jobs"]:
        running[job["id"]] = running.get(job["id"], 0) + (job["stat"] in {"RUN", "USUSP"})
    for job in known["jobs"]:
        most = job["most"] or 10**6
        if job["stat"] == "PEND" and job["begin"] <= time.time() and running[job["id"]] < most:
            running[job["id"]] += 1
            job |= {"stat": "RUN", "start": int(time.time())}
            argv = [sys.executable, "-I", "-S", __file__, "--run", str(job["id"]), str(job["index"])]
            child = subprocess.Popen(
                argv,
                env=os.environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            job["pid"] = child.pid
            child.returncode = 0


# --- bsub -------------------------------------------------------------------------------------------------------------


def options(words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    while words:
        word = words.pop(0)
        if word in FLAGS:
            found[word] = ""
        elif word in VALUED and words:
            found[word] = words.pop(0)
        else:
            end(f"bsub: {word}: Illegal option. Job not submitted.")
    return found


def environment(asked: dict[str, str]) -> dict[str, str]:
    known = dict(os.environ)
    return {name: known[name] for name in ("PATH", "HOME")} if asked.get("-env") == "none" else known


def begin_of(text: str) -> int:
    """Epoch seconds of -b, in the caller's zone."""
    parts = text.split(":")
    if not (2 <= len(parts) <= (4 if on("old") else 5) and all(part.isdecimal() for part in parts)):
        end(f"{text}: Bad begin time specification. Job not submitted.")
    now = time.localtime()
    given = [int(part) for part in parts]
    filled = [now.tm_year, now.tm_mon, now.tm_mday][: 5 - len(given)] + given
    at = time.mktime((*filled, 0, 0, 0, -1))  # type: ignore[arg-type]
    if len(given) < 5 and at < time.time():
        at = time.mktime((filled[0] + 1, *filled[1:], 0, 0, 0, -1))  # type: ignore[arg-type]
    return int(at)


def bsub(words: list[str]) -> None:
    script = sys.stdin.read()
    lines = [line[5:] for line in script.splitlines() if line.startswith("#BSUB")]
    asked: dict[str, str] = {}
    for line in lines:
        asked |= options(shlex.split(line, comments=True))
    asked |= options(words)
    if not script.strip():
        end("No command is specified. Job not submitted.")
    if on("limit"):
        say("Pending job threshold reached. Retrying in 60 seconds...", sys.stderr)
        wait_for_ever()
    if asked.get("-q", "normal") not in QUEUES:
        end(f"{asked['-q']}: No such queue. Job not submitted.")
    if len(asked.get("-Jd", "")) > LONGEST_DESCRIPTION:
        end("Bad job description. Job not submitted.")
    begin = begin_of(asked["-b"]) if "-b" in asked else 0
    sender = f"{time.time()} {os.getpid()}"
    sent = {"script": script, "asked": asked, "begin": begin, "env": environment(asked), "cwd": str(Path.cwd())}
    if not on("frozen"):
        reach_master()
    (HOME / f"sent.{os.getpid()}").write_text(json.dumps(sent | {"sender": sender}))
    while on("slow"):
        time.sleep(0.1)
    reach_master()
    with held() as known:
        start_what_may(known)
        number = next(job["id"] for job in known["jobs"] if job["sender"] == sender)
    if on("deaf"):
        wait_for_ever()
    with contextlib.suppress(FileNotFoundError):
        say((HOME / "notices").read_text())
    queue = f"queue <{asked['-q']}>" if "-q" in asked else "default queue <normal>"
    if begin:
        say(f"Job will be scheduled after {time.ctime(begin)}", sys.stderr)
    say(f"Job <{number}> is submitted to {queue}.")


def accept(known: dict[str, Any], sent: dict[str, Any]) -> None:
    asked = sent["asked"]
    number = known["next"]
    known["next"] += 1
    name = re.fullmatch(r"([^\[]*)(?:\[(.*)\](?:%(\d+))?)?", asked.get("-J", sent["script"].split("\n")[0]))
    assert name, asked
    spans = re.findall(r"(\d+)(?:-(\d+))?", name[2] or "")
    tasks = [task for low, high in spans for task in range(int(low), int(high or low) + 1)] or [0]
    known["jobs"] += [
        {
            "id": number,
            "sender": sent["sender"],
            "index": task,
            "most": int(name[3] or 0),
            "name": name[1],
            "description": asked.get("-Jd", ""),
            "stat": "PSUSP" if "-H" in asked else "PEND",
            "queue": asked.get("-q", "normal"),
            "submit": int(time.time()),
            "begin": sent["begin"],
            "start": 0,
            "finish": 0,
            "code": None,
            "reason": "",
            "script": sent["script"],
            "env": sent["env"],
            "cwd": asked.get("-cwd", sent["cwd"]),
            "out": asked.get("-o", ""),
            "err": asked.get("-e", ""),
            "pid": 0,
        }
        for task in tasks
    ]


def run(number: str, index: str) -> None:
    """A job: its output is kept until its end, and stands behind a report then."""
    with held() as known:
        job = the(known, number, index)
    kept = HOME / f"output.{number}.{index}"
    script = HOME / f"script.{number}.{index}"
    script.write_text(job["script"])
    own = {"LSB_JOBID": number, "LSB_JOBINDEX": index, "LSB_JOBNAME": job["name"], "LSB_SUB_HOST": "here"}
    shell = re.match(r"#!\s*(\S.*)", job["script"])
    folder = job["cwd"] if Path(job["cwd"]).is_dir() else "/tmp"
    with kept.open("wb") as out:
        ended = subprocess.run(
            [*shlex.split(shell[1] if shell else "/bin/sh"), str(script)],
            env={**job["env"], **own},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
        )
    code = ended.returncode if ended.returncode >= 0 else 128 - ended.returncode
    report = f"Sender: LSF System\nSubject: Job {number}: <{job['name']}>\n{job['script']}\nThe output follows:\n\n"
    where = re.sub("%[JI]", lambda each: number if each[0] == "%J" else index, job["out"]) or str(HOME / "mail")
    with contextlib.suppress(OSError), Path(where).open("ab") as out:
        out.write(report.encode() + kept.read_bytes())
    with held() as known:
        job = the(known, number, index)
        if job["stat"] in {"RUN", "USUSP"}:
            job |= {"stat": "EXIT" if code else "DONE", "code": code, "finish": int(time.time())}


def the(known: dict[str, Any], number: str, index: str) -> Job:
    return next(job for job in known["jobs"] if (str(job["id"]), str(job["index"])) == (number, index))


# --- what changes a job -----------------------------------------------------------------------------------------------


def named(known: dict[str, Any], word: str) -> list[Job]:
    """The jobs of `7`, `7[2,4-5]`, or of 0: all."""
    found = re.fullmatch(r"(\d+)(?:\[([\d,-]+)\])?", word)
    if not found:
        end(f"{word}: Illegal job ID.")
    spans = re.findall(r"(\d+)(?:-(\d+))?", found[2] or "")
    return [
        job
        for job in known["jobs"]
        if int(found[1]) in {0, job["id"]}
        and (not spans or any(int(low) <= job["index"] <= int(high or low) for low, high in spans))
    ]


def each_named(words: list[str], act: Any) -> None:
    """Do `act` to each; others are done where one is unknown. It returns what it says, and whether that is well."""
    well = True
    if not words:
        end("Job ID is required.")
    with held() as known:
        for word in words:
            jobs = named(known, word)
            if not jobs:
                say(f"Job <{word}>: No matching job found", sys.stderr)
                well = False
            for job in jobs:
                said, fine = act(job)
                shown = f"{job['id']}[{job['index']}]" if job["index"] else str(job["id"])
                say(f"Job <{shown}>{said}", sys.stdout if fine else sys.stderr)
                well = well and fine
        start_what_may(known)
    sys.exit(0 if well else 255)


ENDED = {"DONE", "EXIT"}
FINISHED = (": Job has already finished", False)


def bkill(words: list[str]) -> None:
    name = ""
    if words[:1] == ["-s"]:
        name, words = words[1], words[2:]

    def act(job: Job) -> tuple[str, bool]:
        if job["stat"] in ENDED:
            return FINISHED if not name else (" is being signaled", True)
        if name and name != "KILL":
            if job["pid"]:
                for child in children(job["pid"]):
                    os.kill(child, getattr(signal, f"SIG{name}"))
            return " is being signaled", True
        if job["pid"]:
            for child in [*children(job["pid"]), job["pid"]]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        job |= {
            "stat": "EXIT",
            "finish": int(time.time()),
            "code": 130 if job["start"] else None,
            "reason": "TERM_OWNER: job killed by owner",
        }
        return " is being terminated", True

    each_named(words, act)


def children(process: int) -> list[int]:
    """All that a process has started, and what those have."""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{process}/task/{process}/children").read_text()
        return [each for child in map(int, text.split()) for each in (child, *children(child))]
    return []


def bstop(words: list[str]) -> None:
    def act(job: Job) -> tuple[str, bool]:
        if job["stat"] in ENDED:
            return FINISHED
        job["stat"] = {"PEND": "PSUSP", "RUN": "USUSP"}.get(job["stat"], job["stat"])
        return " is being stopped", True

    each_named(words, act)


def bresume(words: list[str]) -> None:
    def act(job: Job) -> tuple[str, bool]:
        if job["stat"] in ENDED:
            return FINISHED
        if job["stat"] not in {"PSUSP", "USUSP"}:
            return ": Job has not been suspended", False
        job["stat"] = {"PSUSP": "PEND", "USUSP": "RUN"}[job["stat"]]
        return " is being resumed", True

    each_named(words, act)


def bmod(words: list[str]) -> None:
    changes: Job = {}
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option == "-b":
            changes["begin"] = begin_of(words.pop(0))
        elif option == "-bn":
            changes["begin"] = 0
        elif option == "-Jd":
            changes["description"] = words.pop(0)
        elif option == "-R":
            words.pop(0)
        elif option == "-Rn":
            pass
        else:
            end(f"bmod: {option}: Illegal option.")

    def act(job: Job) -> tuple[str, bool]:
        if job["stat"] in ENDED:
            return FINISHED
        job.update(changes)
        return ": Parameters are being changed", True

    each_named(words, act)


# --- what shows them --------------------------------------------------------------------------------------------------


def moment(at: int, form: str = "%b %e %H:%M") -> str:
    return time.strftime(form, time.localtime(at)) if at else ""


def values(job: Job) -> dict[str, str]:
    held_by = " The job was suspended by the user while pending: 1 host;"
    finish = moment(job["finish"]) or (moment(job["start"] + 3600) + " L" if job["start"] else "")
    return {
        "jobid": str(job["id"]),
        "jobindex": str(job["index"]),
        "stat": job["stat"],
        "queue": job["queue"],
        "submit_time": moment(job["submit"]),
        "start_time": moment(job["start"]),
        "finish_time": finish,
        "exit_code": str(job["code"] or ""),
        "exit_reason": job["reason"],
        "exec_host": "2*here" if job["start"] else "",
        "job_description": job["description"],
        "pend_reason": held_by if job["stat"] == "PSUSP" else "",
        "job_name": f"{job['name']}[{job['index']}]" if job["index"] else job["name"],
        "output_file": job["out"],
        "error_file": job["err"],
        "sub_cwd": job["cwd"],
    }


def shown_by(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """The options of bjobs, and the ids behind them."""
    asked: dict[str, str] = {}
    while words and words[0].startswith("-"):
        option, *words = words
        if option not in {"-a", "-o", "-json"} or (option == "-json" and on("old")):
            end(f"bjobs: Illegal option: {option}\nUsage: bjobs [options] [jobId ...]")
        asked[option] = words.pop(0) if option == "-o" else ""
    return asked, words


def bjobs(words: list[str]) -> None:
    asked, words = shown_by(words)
    ended, as_json, form = "-a" in asked, "-json" in asked, asked.get("-o", "")
    with held() as known:
        start_what_may(known)
        jobs = [job for job in known["jobs"] if ended or job["stat"] not in ENDED]
        unknown = [word for word in words if not named(known, word)]
        if words:
            jobs = [job for word in words for job in named(known, word)]
    for word in unknown:
        say(f"Job <{word}> is not found", sys.stderr)
    if not jobs and not words:
        text = (HOME / "none").read_text() if on("none") else "255"
        end("No unfinished job found" if not ended else "No job found", int(text))
    fields = form.partition("delimiter=")[0].split()
    rows = [values(job) for job in jobs]
    if strange := [field for field in fields for row in rows[:1] if field not in row]:
        end(f"bjobs: {strange[0]}: Invalid field name.")
    if as_json:
        say_json(fields, rows, unknown)
    elif fields:
        mark = form.partition('delimiter="')[2][:1] or " "
        say(mark.join(fields).upper())
        for row in rows:
            say(mark.join(row[field] or "-" for field in fields))
    elif jobs:
        say_table(rows)
    sys.exit(255 if unknown else 0)


def say_json(fields: list[str], rows: list[dict[str, str]], unknown: list[str]) -> None:
    shown = [{field.upper(): row[field] for field in fields} for row in rows]
    shown += [{"JOBID": word, "ERROR": f"Job <{word}> is not found"} for word in unknown]
    say(json.dumps({"COMMAND": "bjobs", "JOBS": len(shown), "RECORDS": shown}, indent=2))


def say_table(rows: list[dict[str, str]]) -> None:
    say("JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME")
    for row in rows:
        host = row["exec_host"].partition("*")[2] or "   -"
        say(
            f"{row['jobid']:<7} {'alice':<7} {row['stat']:<5} {row['queue']:<10} {'here':<11} {host:<11} "
            f"{row['job_name']:<10} {row['submit_time']}"
        )


def bhist(words: list[str]) -> None:
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option == "-n":
            words.pop(0)
        elif option != "-l":
            end(f"bhist: Illegal option: {option}")
    with held() as known:
        start_what_may(known)
        jobs = [job for word in words for job in named(known, word)]
        jobs += [job for job in known.get("past", []) if str(job["id"]) in words]
    for job in jobs:
        say(fold(f"Job <{job['id']}>, Job Name <{job['name']}>, User <alice>, Project <default>, Command <x>"))
        when = "%a %b %e %H:%M:%S"
        say(fold(f"{moment(job['submit'], when)}: Submitted from host <here> with hold, to Queue <{job['queue']}>;"))
        if job["start"]:
            say(fold(f"{moment(job['start'], when)}: Dispatched to <here>;"))
            say(fold(f"{moment(job['start'], when)}: Starting (Pid 4242);"))
        if job["finish"]:
            code = f" with exit code {job['code']}" if job["code"] else ""
            why = f"; {job['reason']}" if job["reason"] else ""
            how = "Done successfully." if job["stat"] == "DONE" else f"Exited{code}."
            say(fold(f"{moment(job['finish'], when)}: {how} The CPU time used is 0.1 seconds;"))
            if job["stat"] == "EXIT":
                say(fold(f"{moment(job['finish'], when)}: Completed <exit>{why}."))
        say("\nSummary of time in seconds spent in various states by  Sat Nov 28 14:12:50\n")
    if not jobs:
        end("No matching job found")


def fold(text: str) -> str:
    """As LSF breaks lines, inside words too."""
    parts = [text[:79]]
    parts += [text[at : at + 58] for at in range(79, len(text), 58)]
    return ("\n" + " " * 21).join(parts)


def main(name: str, *words: str) -> None:
    if name != "bsub":
        reach_master()
    if name == "lsid":
        say("IBM Spectrum LSF Standard 10.1.0.0, a stand-in\n\nMy cluster name is standin\nMy master name is here")
        return
    commands = {
        "bsub": bsub, "bjobs": bjobs, "bkill": bkill, "bmod": bmod, "bresume": bresume, "bstop": bstop, "bhist": bhist
    }  # fmt: skip
    commands[name](list(words))


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        run(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
