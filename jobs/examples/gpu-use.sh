#!/bin/bash
# gpu-use: how many GPUs a job has used, and for how long.
# In GPU-hours, from the controller, else from the accounting.
#
#   gpu-use.sh JOB...
#
set -euo pipefail
[ $# -gt 0 ] || { echo "which job? ${0##*/} JOB..." >&2; exit 2; }

gpus_of() { # TRES NODES: the GPUs in cpu=8,gres/gpu=4,node=2, or on each node in gres:gpu:a100:2 or gres/gpu:2
  local each
  for each in ${1//,/ }; do
    case $each in
      gres/gpu=*) echo "${each#*=}" && return ;;
      gres[:/]gpu*) each=${each##*[:=]} && echo $(( each * $2 )) && return ;;
    esac
  done
  echo 0
}

seconds_of() { # 1-02:03:04, 02:03:04
  local days=0 rest=$1 hours minutes seconds
  if [[ $rest == *-* ]]; then days=${rest%%-*} rest=${rest#*-}; fi
  IFS=: read -r hours minutes seconds <<< "$rest"
  echo $((10#$days * 86400 + 10#$hours * 3600 + 10#$minutes * 60 + 10#$seconds))
}

say() { # JOB GPUS SECONDS STATE
  printf 'job %s (%s): %d GPUs for %dh%02dm%02ds, ' "$1" "$4" "$2" $(($3 / 3600)) $(($3 % 3600 / 60)) $(($3 % 60))
  awk -v gpus="$2" -v seconds="$3" 'BEGIN { printf "%.2f GPU-hours\n", gpus * seconds / 3600 }'
}

field() { # NAME: of the row
  sed -n "s/.* $1=\([^ ]*\).*/\1/p" <<< " $row"
}

for job; do
  if row=$(scontrol --oneliner show job "$job" 2> /dev/null); then
    nodes=$(field NumNodes)
    gpus=$(gpus_of "$(field TRES),$(field AllocTRES),$(field TresPerNode)" "${nodes%%-*}")
    say "$job" "$gpus" "$(seconds_of "$(field RunTime)")" "$(field JobState)"
    continue
  fi
  what=JobID,AllocTRES,ElapsedRaw,State
  row=$(sacct --noheader --parsable2 --allocations --jobs="$job" --format="$what" 2> /dev/null) || true
  if [ -z "$row" ]; then
    echo "job $job is not known: it ended too long ago for the controller, and no accounting has it" >&2
    exit 1
  fi
  while IFS='|' read -r id tres elapsed state; do say "$id" "$(gpus_of "$tres" 1)" "$elapsed" "$state"; done <<< "$row"
done
