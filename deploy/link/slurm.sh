# shellcheck shell=bash disable=SC2034,SC2154 # a part of deploy/scheduler.slurm.in, which has the names that are not set here
# Slurm. A file of another batch system sets the same two names, and has the same functions; `let_go`, `ended_as` and
# `begin_again` and `outlive_node` where it can.
job=${SLURM_JOB_ID:-0} node=${SLURMD_NODENAME:-}

# One row a job of this user: id|state|name|reason|start|submitted|comment|command. Fails where there is no answer.
queue() { SLURM_TIME_FORMAT=%s timeout "$limit" squeue --me --noheader --format='%i|%T|%j|%r|%S|%V|%k|%o'; }

# Submit this job's copy, to begin at AT; where HOLD is not empty it is held. Prints the new id.
hand_in() { # NAME AT COMMENT NODES HOLD ARGUMENT...
  local name=$1 at=$2 comment=$3 nodes=$4 hold=$5
  shift 5
  timeout "$limit" sbatch --parsable ${hold:+--hold} --no-requeue --job-name="$name" --begin="uts$at" \
    --comment="$comment" --output=/dev/null --chdir=/ "${options[@]}" ${nodes:+--exclude="$nodes"} "$copy" "$@"
}

# A job that is held gets its begin, and is released.
let_begin() { # ID AT
  timeout "$limit" scontrol update JobId="$1" StartTime="uts$2" && timeout "$limit" scontrol release "$1"
}

# Did somebody give this job an earlier start? Then it became eligible a while after its submission.
let_go() {
  local times='SubmitTime=([0-9]+) EligibleTime=([0-9]+)'
  [[ $(SLURM_TIME_FORMAT=%s timeout "$limit" scontrol show job "$job") =~ $times ]] &&
    [ "$((BASH_REMATCH[2] - BASH_REMATCH[1]))" -gt 60 ]
}

cancel() { timeout "$limit" scancel "$@"; }

# No other job of the chain may wait: where this one's node fails, Slurm is to start it anew.
outlive_node() { timeout "$limit" scontrol update JobId="$job" Requeue=1; }

# This job, whose work is done, goes back to the queue as a link that begins at AT: so it needs no place but its own. One
# answer that fails must not end the chain: it is asked again, unless somebody ends this job. What then ends here may take
# the last command with it: it is given again; without it the job begins in two minutes.
begin_again() { # AT COMMENT
  local try back=''
  trap 'ended=yes' TERM
  for try in 0 10 20; do
    sleep "$try"
    if [ -n "$ended" ]; then break; fi
    if timeout "$limit" scontrol update JobId="$job" JobName="$link" Comment="$2" Requeue=1 &&
      timeout "$limit" scontrol requeue "$job"; then
      back=yes
      break
    fi
  done
  [ -n "$back$ended" ] || return
  trap '' TERM
  for try in 1 2 3; do
    if timeout "$limit" scontrol update JobId="$job" StartTime="uts$1" Requeue=0; then return; fi
  done
  [ -n "$back" ]
}

# How a job ended that is not in the queue any more: name|state|nodes. Nothing where nobody tells.
ended_as() { # ID
  timeout "$limit" sacct --allocations --noheader --parsable2 --jobs="$1" --format=JobName,State,NodeList 2>/dev/null | tail -n 1
}
