"""Scripts submitted in place of the user's: for pieces of a train, and for entries that record their own end.

The user's script is read when the job starts, not when it was queued. sbatch does not ask for the execute bit, so
neither is it asked for here: the first line names the interpreter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronhpc.core.model import Ending, Result
from cronhpc.store import shapes
from cronhpc.store.files import decoded, read_bytes, replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from cronhpc.core.model import Key

_READ_FIRST_LINE = """\
first=
{ IFS= read -r first <"$script"; } 2>/dev/null
if [ -z "$first" ]; then
  printf 'cronhpc: %s cannot be read on %s: nothing is done%s\\n' "$script" "$HOSTNAME" "$so" >&2
  exit 127
fi
read -r -a interpreter <<<"${first#\\#!}"
"""

PIECE = f"""#!/bin/bash
# made by cronhpc: a piece of a work that keeps itself going; it runs the script named first, as it is now
script=$1 so=', and no next piece is queued. When it is there again: sbatch it'
shift
{_READ_FIRST_LINE}exec "${{interpreter[@]}}" "$script" "$@"
"""

RECORDED = f"""#!/bin/bash
# made by cronhpc (record: true): runs the script named first, and writes down how it ended in the file named second
script=$1 end=$2 so=
shift 2
{_READ_FIRST_LINE}printf -v begun '%(%s)T' -1
"${{interpreter[@]}}" "$script" "$@" &
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
printf -v over '%(%s)T' -1
printf '{{"exit_code":%d,"started":%d,"ended":%d,"node":"%s"}}\\n' "$code" "$begun" "$over" "$HOSTNAME" >"$end.tmp" &&
  mv -f -- "$end.tmp" "$end"
exit "$code"
"""
_SIGNALLED = 128  # the shell's way of saying that a signal ended it


def piece(state: Path) -> Path:
    """The stub of trains. Raises OSError."""
    return _written(state / "stubs" / "piece.slurm", PIECE)


def recorded(state: Path) -> Path:
    """The stub of entries with `record: true`. Raises OSError."""
    return _written(state / "stubs" / "recorded.slurm", RECORDED)


def end_file(state: Path, key: Key) -> Path:
    """Where a recorded run writes its end."""
    return state / "ends" / f"{key}.json"


def end_of(state: Path, key: Key) -> Ending | None:
    """What a recorded run wrote, or None. Raises OSError."""
    row = shapes.fitted(decoded(read_bytes(end_file(state, key))), shapes.END, [])
    if row is shapes.GONE or not {"exit_code", "started", "ended"} <= row.keys():
        return None
    code = row["exit_code"]
    signal = code - _SIGNALLED if code > _SIGNALLED else None
    result = Result.OK if code == 0 else Result.FAILED
    return Ending(result, code, signal, started=row["started"], ended=row["ended"], node=row.get("node", ""))


def _written(path: Path, text: str) -> Path:
    if read_bytes(path) != text.encode():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, text.encode(), 0o700)
    return path
