# shellcheck shell=bash
# What the ready-made jobs share: words for what is missing, the one look at each setting, a look for others at the same
# work, and the start of the Python file of jobs/lib that has a job's logic, where one has.

# The batch system around this, or else the one whose commands are here; and the job's id and name there. cronhpc's own
# backend for one machine sets Slurm's variables but for the cluster's name, and has no queue to ask.
job=${0##*/} job=${job%.slurm} system='' own=''
if [ -n "${SLURM_JOB_ID:-}" ]; then
  job=${SLURM_JOB_NAME:-$job}
  [ -z "${SLURM_CLUSTER_NAME:-}" ] && ! command -v squeue > /dev/null || system=slurm own=$SLURM_JOB_ID
elif [ -n "${SGE_JOB_SPOOL_DIR:-}" ]; then
  system=grid_engine own=$JOB_ID job=$JOB_NAME
elif [ -n "${PBS_JOBID:-}" ]; then
  system=pbs own=${PBS_JOBID%%[!0-9]*} job=$PBS_JOBNAME
elif [ -n "${LSB_JOBID:-}" ]; then
  system=lsf own=$LSB_JOBID job=$LSB_JOBNAME
else
  for each in slurm:squeue grid_engine:qconf pbs:qselect lsf:bjobs; do
    [ -n "$system" ] || ! command -v "${each#*:}" > /dev/null || system=${each%:*}
  done
fi
named=$job
job=${CRONHPC_ENTRY:-$job} # two entries made of one job share no state
state=${XDG_STATE_HOME:-$HOME/.local/state}/cronhpc-jobs/${job//[^[:alnum:]._-]/_} # what its files there begin with

broken() { # MESSAGE: exit code 2
  echo "broken: $*" >&2
  exit 2
}

need() { # PACKAGE TOOL...: one of the tools is here
  local package=$1 names="${*:2}" tool
  for tool in "${@:2}"; do command -v "$tool" > /dev/null && return; done
  broken "${names// / or } is not on this node ($(uname -n)): it comes with $package"
}

need_python() { # the first Python that is new enough; start runs it
  local name
  for name in "${CRONHPC_PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 /usr/bin/python3; do
    python=$(command -v "$name") || continue
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2> /dev/null && return
  done
  broken "python3 (3.9 or newer) is not on this node ($(uname -n)): it comes with the package python3, or a module"
}

# --- settings: what cannot be is broken, and names the setting ---

given() { # SETTING [WHAT TO DO]: it is not empty; of an array, one element is not
  local all="$1[*]"
  [[ ${!all} == *[![:space:]]* ]] || broken "$1 is empty: ${2:-set it} at the top of the script"
}

on() { # SETTING: whether it is yes; a slip switches nothing on
  case ${!1} in
    yes) return 0 ;;
    no) return 1 ;;
    *) broken "$1=${!1}: write yes or no" ;;
  esac
}

flag() { # SETTING: it is yes or no
  on "$1" || true
}

one_of() { # SETTING WORD...: it is one of the words
  local words=${*:2}
  local first=${words% *}
  [[ -n ${!1} && " $words " == *" ${!1} "* ]] || broken "$1=${!1}: write ${first// /, } or ${words##* }"
}

number() { # SETTING: a number
  [[ ${!1} =~ ^[[:digit:]]+(\.[[:digit:]]+)?$ ]] || broken "$1=${!1}: write a number, 0 or more"
}

count() { # SETTING [LEAST]: a whole number, not below LEAST
  if ! [[ ${!1} =~ ^[[:digit:]]{1,15}$ ]] || [ "${!1}" -lt "${2:-0}" ]; then
    broken "$1=${!1}: write a number, a whole one, ${2:-0} or more"
  fi
}

duration() { # SETTING: 30m, 2h, 7d, or 0; it is in seconds from here on
  [[ ${!1} =~ ^([[:digit:]]{1,9})([smhdw])$ || ${!1} == 0 ]] || broken "$1=${!1} is no duration: write it like 30m, 2h or 7d"
  local -A worth=([s]=1 [m]=60 [h]=3600 [d]=86400 [w]=604800)
  [ "${!1}" = 0 ] || printf -v "$1" %d $((10#${BASH_REMATCH[1]} * worth[${BASH_REMATCH[2]}]))
}

bytes() { # SETTING: 500M, 5G, or 0; it is in bytes from here on
  [[ ${!1} =~ ^([[:digit:]]{1,12})([KMGTPkmgtp]?)$ ]] || broken "$1=${!1} is no size: write it like 500M or 5G"
  local units=KMGTP unit=${BASH_REMATCH[2]^^}
  local before=${units%%"${unit:-K}"*}
  printf -v "$1" %d $((10#${BASH_REMATCH[1]} << (${#unit} * 10 * (${#before} + 1))))
}

folder() { # SETTING: it, or each of its elements, names a folder that is there
  local all="$1[@]" each
  given "$1"
  for each in "${!all}"; do
    [[ -z $each || $each == /* ]] || broken "$1=$each: write the whole path, at the top of the script"
    [[ -z $each || -d $each ]] || broken "$1=$each: there is no such folder on $(uname -n) (not mounted?)"
  done
}

apart() { # SETTING: each of its elements is one option, not several in one pair of quotes
  local all="$1[@]" each
  for each in "${!all}"; do
    [[ $each != -*' --'* ]] || broken "$1=$each: write each option by itself, in parentheses: (--one --two=2)"
  done
}

private() { # SETTING: it names a file with a secret, which only its owner may read
  [ -r "${!1}" ] || broken "$1=${!1}: there is no such file, or it may not be read"
  if [ ! -O "${!1}" ] || [ $((8#$(stat -L -c %a -- "${!1}") & 8#77)) -ne 0 ]; then
    broken "$1=${!1} may be read by others: chmod 600 it, and change the secret"
  fi
}

# --- at work ---

outside() { # COMMAND...: in place of the (sub)shell, without the job's variables, which change what such commands do
  local name
  for name in $(compgen -e | grep -E '^(SLURM|SBATCH|SRUN|SALLOC|SQUEUE|SCANCEL|SACCT|SCONTROL|SINFO|PMI|OMPI|LSB_)'); do
    case $name in SLURM_CONF | SLURM_JWT) ;; *) unset "$name" ;; esac
  done
  exec "$@"
}

brief() { # < TEXT: its last lines as one
  tail -n 3 | paste -s -d ' ' | cut -c 1-400
}

listed() { # NODE,...: as Slurm writes it, cpu[1-3]
  (outside scontrol show hostlist "$1" 2> /dev/null) || echo "$1"
}

plural() { # COUNT NOUN
  if [ "$1" -eq 1 ]; then echo "1 $2"; else echo "$1 $2s"; fi
}

remember() { # SUFFIX < TEXT: kept whole in the job's file of that ending, for its next run
  local new=$state.$1.$$
  { (umask 077 && mkdir -p "${state%/*}" && cat > "$new") && mv -f -- "$new" "$state.$1"; } 2> /dev/null ||
    echo "$state.$1 cannot be written: the same may be told again" >&2
}

recall() { # SUFFIX: what an earlier run has kept there
  cat "$state.$1" 2> /dev/null
}

running() { # [NAME]: start and id of one's jobs that run, or of those of that name
  local rows user
  user=$(id -un)
  case $system in
    slurm)
      outside env SLURM_TIME_FORMAT=%s squeue --noheader --user="$(id -u)" ${1:+"--name=$1"} \
        --states=running,suspended,completing --format='%S %A'
      ;;
    grid_engine)
      rows=$(outside env TZ=UTC0 timeout 60 qstat -xml -s rs -u "$user") && [[ $rows == *'</job_info>'* ]] || return
      awk -F '[<>]' -v name="${1:-}" '/<JB_job_number>/ { id = $3 } /<JB_name>/ { its = $3 }
        /<JAT_start_time>/ && (name == "" || name == its) { print $3 "|" id }' <<< "$rows" | dated
      ;;
    pbs)
      rows=$(outside timeout 60 qselect -u "$user" -s R ${1:+-N "$1"}) || return
      [ -n "$rows" ] || return 0
      # shellcheck disable=SC2086 # an id a word; one that has just ended makes it fail, and shows the others
      rows=$(outside env TZ=UTC0 timeout 60 qstat -f -F dsv -D '|' $rows) || [ -n "$rows" ] || return
      sed -nE 's/^Job Id: ([0-9]+).*\|stime=([^|]*).*/\2|\1/p' <<< "$rows" | dated
      ;;
    lsf)
      rows=$(outside env TZ=UTC0 LSB_NTRIES=1 timeout 60 bjobs -r -u "$user" ${1:+-J "$1"} -noheader \
        -o "start_time jobid delimiter='|'" 2>&1) || [[ $rows == *' found' ]] || return
      grep -E '\|[0-9]+$' <<< "$rows" | dated
      ;;
  esac
}

dated() { # < TIME|ID: in seconds since 1970, and the id; LSF tells no year
  local at id latest seconds
  latest=$(($(date +%s) + 86400))
  while IFS='|' read -r at id; do
    seconds=$(date -u -d "$at" +%s) || return
    [ "$seconds" -le $latest ] || seconds=$(date -u -d "1 year ago $at" +%s)
    echo "$seconds $id"
  done
}

process() { # ID: when it began (in ticks since the boot), and its id; nothing where there is none
  local words
  words=$(cat "/proc/$1/stat" 2> /dev/null) || return
  read -r -a words <<< "${words##*) }"
  echo "${words[19]}.$1"
}

# The queue's word holds on all nodes, and for jobs; marks are for what it does not know, on this machine. Each run makes
# its own, and then looks for others': a mark of a process that is gone means nothing, so none is left over.
alone() { # ends with exit code 0 where another run of this job is at work; the one that began first stays
  local name=$named rows first mark mine other
  if [ -n "$own" ]; then
    rows=$(running "$name") || broken "the queue is unknown, so another $name may run"
  else
    rows=$(running "$name" 2> /dev/null) || rows=''
  fi
  first=$(sort -n -k 1,1 -k 2,2 <<< "$rows" | head -n 1)
  case ${first#* } in '' | "$own") ;; *) echo "job ${first#* } is at it: nothing to do" && exit 0 ;; esac
  mark=$state.$(uname -n).running mine=$(process $$)
  (umask 077 && mkdir -p "${state%/*}")
  { : > "$mark.$mine"; } 2> /dev/null || [ -n "$own" ] || broken "$mark.$mine cannot be written"
  for other in "$mark".*; do
    other=${other#"$mark."}
    if [ "$(process "${other#*.}")" != "$other" ]; then
      rm -f -- "$mark.$other"
    elif [ "$(printf '%s\n' "$other" "$mine" | sort -t . -n -k 1,1 -k 2,2 | head -n 1)" != "$mine" ]; then
      rm -f -- "$mark.$mine"
      echo "another $name is at it (process ${other#*.}): nothing to do" && exit 0
    fi
  done
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

start() { # FILE SETTING...: the Python file, with these settings (NAME, or NAME=VALUE), in place of the shell
  local name all value words=("job=$job" "state=$state")
  for name in "${@:2}"; do
    case $name in *=*) words+=("$name") && continue ;; esac
    all="${name}[@]"
    for value in "${!all}"; do words+=("$name=$value"); done
  done
  export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" # not on every user's
  # shellcheck disable=SC2154 # the script that sources this says where lib is
  exec "$python" "$lib/$1" "${words[@]}"
}
