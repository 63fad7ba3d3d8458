# shellcheck shell=bash
# What the ready-made jobs share: words for what is missing, a look for others at the same work, and the start of the
# Python file of jobs/lib that has a job's logic, where one has.

broken() { # MESSAGE: exit code 2
  echo "broken: $*" >&2
  exit 2
}

need() { # PACKAGE TOOL...: one of the tools is here
  local package=$1 names="${*:2}" tool
  for tool in "${@:2}"; do command -v "$tool" > /dev/null && return; done
  broken "${names// / or } is not on this node ($(uname -n)): it comes with $package"
}

on() { # SETTING VALUE: whether it is yes; a slip switches nothing on
  case $2 in
    yes) return 0 ;;
    no) return 1 ;;
    *) broken "$1=$2: write yes or no" ;;
  esac
}

given() { # SETTING...: none is empty
  local name
  for name in "$@"; do [ -n "${!name:-}" ] || broken "$name is empty: set it at the top of the script"; done
}

folder() { # SETTING...: each names a folder that is there
  local name
  for name in "$@"; do
    given "$name"
    [[ ${!name} == /* ]] || broken "$name=${!name}: write the whole path, at the top of the script"
    [ -d "${!name}" ] || broken "$name=${!name}: there is no such folder on $(uname -n) (not mounted?)"
  done
}

private() { # SETTING: it names a file with a secret, which only its owner may read
  [ -r "${!1}" ] || broken "$1=${!1}: there is no such file, or it may not be read"
  if [ ! -O "${!1}" ] || [ $((8#$(stat -L -c %a -- "${!1}") & 8#77)) -ne 0 ]; then
    broken "$1=${!1} may be read by others: chmod 600 it, and change the secret"
  fi
}

outside() { # COMMAND...: in place of the (sub)shell, without the job's variables, which change what Slurm's commands do
  local name
  for name in $(compgen -e | grep -E '^(SLURM|SBATCH|SRUN|SALLOC|SQUEUE|SCANCEL|SACCT|SCONTROL|SINFO|PMI|OMPI)'); do
    case $name in SLURM_CONF | SLURM_JWT) ;; *) unset "$name" ;; esac
  done
  exec "$@"
}

running_of() { # NAME: start and id of one's jobs of that name that run
  outside env SLURM_TIME_FORMAT=%s squeue --noheader --user="$(id -u)" --name="$1" \
    --states=running,suspended,completing --format='%S %A'
}

# Slurm's word holds on all nodes, and for jobs; the lock for what Slurm does not know, on this machine at least (some
# cluster file systems keep locks to a node). Neither is left over from a run that has died.
alone() { # JOB: ends with exit code 0 where another run of it is at work; of two jobs the one that began first stays
  local name=${SLURM_JOB_NAME:-$1} place=${XDG_STATE_HOME:-$HOME/.local/state}/cronhpc-jobs running='' first code
  if [ -n "${SLURM_JOB_ID:-}" ]; then
    running=$(running_of "$name") || broken "the queue is unknown, so another $name may run"
  elif command -v squeue > /dev/null; then
    running=$(running_of "$name" 2> /dev/null) || running=''
  fi
  first=$(sort -n -k 1,1 -k 2,2 <<< "$running" | head -n 1)
  case ${first#* } in '' | "${SLURM_JOB_ID:-}") ;; *) echo "job ${first#* } is at it: nothing to do" && exit 0 ;; esac
  need "the package util-linux" flock
  (umask 077 && mkdir -p "$place")
  { exec 9>> "$place/$name.running"; } 2> /dev/null || broken "$place/$name.running cannot be written"
  flock -n 9 # what the job starts keeps it, too
  code=$?
  if [ $code -eq 1 ]; then echo "another $name is at it ($place/$name.running is locked): nothing to do" && exit 0; fi
  [ $code -eq 0 ] || [ -n "${SLURM_JOB_ID:-}" ] || broken "$place/$name.running cannot be locked"
}

until_time_is_up() { # COMMAND...: its exit code; that the job's time is up (--signal=B:TERM@SECONDS) ends the job with 0
  local child='' code up=no
  trap 'up=yes; kill "$child" 2> /dev/null' TERM
  "$@" &
  child=$!
  [ $up = no ] || kill "$child" # it came before there was a child
  wait "$child"
  code=$?
  while kill -0 "$child" 2> /dev/null; do # the signal ends a wait
    wait "$child"
    code=$?
  done
  trap - TERM
  [ $up = no ] && return $code
  echo "the job's time is up: the next run goes on"
  exit 0
}

start() { # FILE ARGUMENT...: runs it in place of the shell, with the first Python that is new enough
  local name found
  for name in "${CRONHPC_PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 /usr/bin/python3; do
    found=$(command -v "$name") || continue
    "$found" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2> /dev/null || continue
    # shellcheck disable=SC2154 # the script that sources this says where lib is
    exec "$found" "$lib/$1" "${@:2}"
  done
  broken "python3 (3.9 or newer) is not on this node ($(uname -n)): it comes with the package python3, or a module"
}
