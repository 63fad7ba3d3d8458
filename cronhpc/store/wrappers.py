"""Scripts submitted in place of the user's: for pieces of a series, and for entries with --record or --ping.

The user's script is read when the job starts, not when it was queued. sbatch does not ask for the execute bit, so
neither is it asked for here: the first line names the interpreter.
"""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING

from cronhpc.core.model import Instant, JobEnd, Key, Result, decode
from cronhpc.cron.values import dataclass
from cronhpc.store.files import create_once, decoded, make_folder, read_bytes, remove, replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cronhpc.script.dialect import JobVariables

_READ_FIRST_LINE = """\
first=
{ IFS= read -r first <"$script"; } 2>/dev/null
if [ -z "$first" ]; then
  printf 'cronhpc: %s cannot be read on %s: nothing is done%s\\n' "$script" "$HOSTNAME" "$so" >&2
  exit 127
fi
set -f
# shellcheck disable=SC2206 # its words; a here-string needs room in /tmp with an older bash
interpreter=(${first#\\#!})
set +f
"""

_PIECE = f"""#!/bin/bash
# made by cronhpc: a piece of a work that keeps itself going; it runs the script named first, as it is now
script=$1 so=', and no next piece is queued. When it is there again: submit it'
shift
{_READ_FIRST_LINE}"""

_RUN = """#!/bin/bash
# made by cronhpc: runs the script named first, as it is now. With --record it writes down how that ended, in the file
# named second; with --ping it tells that it starts, once: then the file named third is there
script=$1 end=$2 told=$3 so=
shift 3
"""
_WRITTEN_DOWN = f"""\
printf -v begun '%(%s)T' -1
trap 'write_end 127' EXIT # also where there is nothing to run
{_READ_FIRST_LINE}trap - EXIT
"""
_TOLD = """\
ping=$CRONHPC_PING
unset CRONHPC_PING
tell_start() { # what cannot be sent from here is left to the next tick; no program's arguments show the address
  local url='' name=${ping#*:} base python
  case $ping in
    file:/*)
      [ -z "$(find -L "$name" -maxdepth 0 -perm /077 2>&1)" ] || return # one that others can read is refused
      read -r url <"$name"
      ;;
    env:*) url=${!name} ;;
    *) url=$ping ;;
  esac
  case $url in
    *[[:space:]\\"\\\\]*) return ;;
    http://?* | https://?*) ;;
    *) return ;;
  esac
  (set -C && : >"$told") || return # told by another task, before this job was requeued, or by a tick
  base=${url%%\\?*}
  url=${base%/}/start${url#"$base"}
  python='import sys, urllib.request as http; http.urlopen(sys.stdin.readline().strip(), timeout=10)'
  if type curl; then
    printf 'url = "%s"\\n' "$url" | curl -fsSL -m 10 -K -
  elif type wget; then
    printf '%s\\n' "$url" | wget -q -T 10 -t 1 -O - -i -
  else
    printf '%s\\n' "$url" | python3 -c "$python"
  fi || rm -f -- "$told"
}
if [ -n "$told" ]; then
  (tell_start &) </dev/null >/dev/null 2>&1
fi
"""
_WAITED = """\
printf -v begun '%(%s)T' -1
"${interpreter[@]}" "$script" "$@" &
child=$!
for name in TERM INT HUP USR1 USR2 CONT; do
  # shellcheck disable=SC2064 # the signal's name is meant now
  trap "kill -s $name $child 2>/dev/null" "$name"
done
wait "$child"
code=$?
while kill -0 "$child" 2>/dev/null; do # a signal ended the wait, not the child
  wait "$child"
  code=$?
done
"""
_SIGNALLED = 128  # the shell's way of saying that a signal ended it


def piece(state: Path, job: JobVariables) -> Path:
    """The wrapper of series. Raises OSError."""
    return _written(state / "stubs" / "piece.slurm", piece_text(job))


def piece_text(job: JobVariables) -> str:
    """The wrapper of series, in jobs that have these variables; exit codes as in `run_text`."""
    return f"{_PIECE}{_WAITED}{_leave(job)}" if job.codes else f"{_PIECE}{_BECOME}"


_BECOME = 'exec "${interpreter[@]}" "$script" "$@"\n'


def _leave(job: JobVariables) -> str:
    codes = " | ".join(map(str, job.codes))
    return (f"case $code in {codes}) code=1 ;; esac\n" if codes else "") + 'exit "$code"\n'


def run_text(job: JobVariables) -> str:
    """The wrapper of entries with --record or --ping, in jobs that have these variables.

    Where some exit codes tell the batch system something else, 1 stands for them; what is recorded is the true one.
    """
    watched = "" if job.codes else f'[ -n "$end" ] || {_BECOME}'
    return f"""{_RUN}write_end() {{ # CODE
  [ -n "$end" ] || return 0
  local task=${{{job.task}-}} tasks=1 over
  printf -v over '%(%s)T' -1
  case $task in '' | undefined) task='' ;; *) tasks=$(({job.tasks})) ;; esac
  end=$end${{task:+.$task}} # each task of an array has its own
  printf '{{"exit_code":%d,"started":%d,"ended":%d,"node":"%s","tasks":%d}}\\n' \\
    "$1" "$begun" "$over" "$HOSTNAME" "$tasks" >"$end.tmp" && mv -f -- "$end.tmp" "$end"
}}
{_WRITTEN_DOWN}{_TOLD}{watched}{_WAITED}write_end "$code"
{_leave(job)}"""


def run(state: Path, script: str, key: Key, job: JobVariables, *, record: bool, ping: bool) -> tuple[str, ...]:
    """What is submitted in place of `script`, and the arguments that stand before the script's own. Raises OSError."""
    path = _written(run_path(state), run_text(job))
    if record or ping:
        (state / "ends").mkdir(mode=0o700, exist_ok=True)
    return str(path), script, str(end_file(state, key)) if record else "", str(_start_mark(state, key)) if ping else ""


def run_path(state: Path) -> Path:
    """The wrapper of entries with --record or --ping."""
    return state / "stubs" / "run.slurm"


def mark_start(state: Path, key: Key) -> bool:
    """Note that the ping of the run's start is sent; False: that was noted before. Raises OSError."""
    make_folder(state / "ends")
    return create_once(_start_mark(state, key), os.urandom(8).hex().encode(), durable=False)


def _start_mark(state: Path, key: Key) -> Path:
    return state / "ends" / f"{key}.ping"


def end_file(state: Path, key: Key) -> Path:
    """Where a recorded run writes its end; a task of an array adds its number."""
    return state / "ends" / f"{key}.json"


def end_of(state: Path, key: Key) -> JobEnd | None:
    """What a recorded run wrote; of an array once all its tasks have, or one has failed. None: not known.

    Raises OSError.
    """
    whole = end_file(state, key)
    tasks = (path for path in whole.parent.glob(f"{glob.escape(whole.name)}.*") if path.suffix[1:].isdecimal())
    records = {path.name: decode.read(_End, decoded(read_bytes(path)))[0] for path in (whole, *tasks)}
    rows = {name: row for name, row in records.items() if row is not None}
    failed = {name: row for name, row in rows.items() if row.exit_code}
    if not rows or (not failed and len(rows) < max(row.tasks for row in rows.values())):
        return None
    code = max(row.exit_code for row in rows.values())
    lost = sorted((name.rpartition(".")[2] for name in failed if name != whole.name), key=int)
    return JobEnd(
        Result.FAILED if failed else Result.OK,
        code,
        code - _SIGNALLED if code > _SIGNALLED else None,
        started=min(row.started for row in rows.values()),
        ended=max(row.ended for row in rows.values()),
        node=next(iter((failed or rows).values())).node,
        detail=f"array tasks: {', '.join(lost)} failed" if lost else "",
        tasks=",".join(lost),
    )


def forget_ends(state: Path, keys: Iterable[Key]) -> None:
    """What runs wrote is in history. Raises OSError."""
    gone = {f"{key}{kind}" for key in keys for kind in (".json", ".ping")}
    for name in os.listdir(state / "ends"):
        if name in gone or name.rpartition(".")[0] in gone:
            remove(state / "ends" / name)


@dataclass(frozen=True, slots=True)
class _End:
    """What one task wrote; `tasks`: how many its array has."""

    exit_code: int
    started: Instant
    ended: Instant
    node: str = ""
    tasks: int = 1


def _written(path: Path, text: str) -> Path:
    if read_bytes(path) != text.encode():
        make_folder(path.parent)
        replace_file(path, text.encode(), 0o700)
    return path
