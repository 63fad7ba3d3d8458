# shellcheck shell=bash
# A kill switch for batch scripts without Python. Source it, then:
#
#   source kill-switch.sh
#   guarded /proj/team/kill/training17 -- ./simulate --input big.dat
#
# runs the command in a process group of its own, and ends that group when one of the files before -- exists: TERM,
# and KILL after KILL_SWITCH_GRACE seconds (300). It looks every KILL_SWITCH_EVERY seconds (5). Signals are passed on.
# The exit code is the command's, or 113 where a switch ended it or kept it from starting.

kill_switch_set() { # the first of the files that exists, with its owner
  local path
  for path; do
    ls -A -- "${path%/*}/" > /dev/null 2>&1 # NFS: a listing is fresh where a stat alone may be a minute old
    if [[ -e $path || -L $path ]]; then
      echo "kill switch $(printf %q "$path"), set by $(stat -c %U -- "$path" 2> /dev/null || echo someone)"
      return 0
    fi
  done
  return 1
}

guarded() {
  local -a paths=()
  local by signal pid watcher saved status=0 watched=0 nap=
  while (($#)) && [[ $1 != -- ]]; do
    [[ $1 == */* ]] && paths+=("$1") || paths+=("./$1")
    shift
  done
  if (($# < 2 || ${#paths[@]} == 0)); then
    echo 'guarded: write: guarded FILE... -- COMMAND...' >&2
    return 2
  fi
  shift
  if by=$(kill_switch_set "${paths[@]}"); then
    echo "guarded: not started: $by" >&2
    return 113
  fi

  saved=$(trap -p HUP INT QUIT TERM USR1 USR2)
  set -m # the command gets a process group of its own
  "$@" &
  pid=$!
  set +m
  for signal in HUP INT QUIT TERM USR1 USR2; do
    # shellcheck disable=SC2064 # the group of this very command
    trap "kill -s $signal -- -$pid 2> /dev/null || true" "$signal"
  done
  (
    set +eu
    trap 'kill "$nap" 2> /dev/null; exit 0' TERM
    trap '' HUP INT QUIT USR1 USR2
    while sleep "${KILL_SWITCH_EVERY:-5}" & nap=$!; wait "$nap"; do
      kill -0 "$pid" 2> /dev/null || exit 0 # a TERM that comes before its trap is set is lost
      by=$(kill_switch_set "${paths[@]}") || continue
      trap '' TERM
      echo "guarded: $by: ending $1 at $(date '+%F %T')" >&2
      kill -s TERM -- "-$pid" 2> /dev/null
      for ((left = ${KILL_SWITCH_GRACE:-300} * 10; left > 0; left--)); do
        kill -0 -- "-$pid" 2> /dev/null || exit 113
        sleep 0.1
      done
      kill -s KILL -- "-$pid" 2> /dev/null
      exit 113
    done
  ) &
  watcher=$!

  while :; do # a signal ends a wait early
    wait "$pid" 2> /dev/null && status=0 || status=$?
    kill -0 "$pid" 2> /dev/null || break
  done
  kill -s TERM "$watcher" 2> /dev/null || true
  wait "$watcher" && watched=0 || watched=$?
  trap - HUP INT QUIT TERM USR1 USR2
  eval "$saved"
  ((watched == 113)) && status=113
  return "$status"
}
