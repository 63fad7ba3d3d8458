#!/bin/bash
# How many GPUs a job has, or had, and for how long: GPU-hours. From the accounting, else from the controller.
#
#   gpu-use.sh JOB...
#
set -euo pipefail
[ $# -gt 0 ] || { echo "which job? ${0##*/} JOB..." >&2; exit 2; }

gpus_of() { # TRES: cpu=8,gres/gpu=4,gres/gpu:a100=4,node=1
  local each
  for each in ${1//,/ }; do
    case $each in gres/gpu=*) echo "${each#*=}" && return ;; esac
  done
  echo 0
}

seconds_of() { # 1-02:03:04, 02:03:04, 03:04
  awk -F '[-:]' '{ s = 0; for (i = 1; i <= NF; i++) s = s * (i == NF - 2 + 1 || i == NF ? 60 : (i == 2 && /-/) ? 24 : 60) + $i; print s }' <<< "$1"
}

say() { # JOB GPUS SECONDS STATE
  awk -v job="$1" -v gpus="$2" -v s="$3" -v state="$4" 'BEGIN {
    printf "job %s (%s): %d GPUs for %dh%02dm%02ds, %.2f GPU-hours\n", job, state, gpus, s / 3600, s % 3600 / 60, s % 60, gpus * s / 3600 }'
}

for job; do
  row=$(sacct --noheader --parsable2 --allocations --jobs="$job" --format=JobID,AllocTRES,ElapsedRaw,State 2> /dev/null || true)
  if [ -n "$row" ]; then
    while IFS='|' read -r id tres elapsed state; do say "$id" "$(gpus_of "$tres")" "$elapsed" "$state"; done <<< "$row"
  elif row=$(scontrol --oneliner show job "$job" 2> /dev/null); then
    field() { sed -n "s/.* $1=\([^ ]*\).*/\1/p" <<< " $row"; }
    tres=$(field TRES)
    [ -n "$tres" ] || tres=$(field AllocTRES)
    say "$job" "$(gpus_of "$tres")" "$(seconds_of "$(field RunTime)")" "$(field JobState)"
  else
    echo "job $job is not known: it ended too long ago for the controller, and there is no accounting" >&2
    exit 1
  fi
done
