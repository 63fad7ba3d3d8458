# shellcheck shell=bash disable=SC2034,SC2154 # a part of deploy/scheduler.slurm.in, which has the names that are not set here
# LSF; what each function is for is told in slurm.sh, beside this file. Without LSB_NTRIES its commands wait for ever.
job=${LSB_JOBID:-0} node=${LSB_HOSTS%% *}
node=${node:-$HOSTNAME}

lsf() { TZ=UTC0 LC_ALL=C LSB_NTRIES=1 timeout "$limit" "$@"; }

# Times are printed in minutes and without the year: the middle of the minute, not ahead of this node's clock by a day.
# What a job begins at stands behind a | in its description.
queue() {
  local rows number state name start submitted why comment reason
  rows=$(lsf bjobs -a -o 'jobid stat job_name submit_time start_time pend_reason job_description delimiter="^"' 2>&1)
  [[ ! $rows =~ ^No\ (unfinished\ )?jobs?\ found ]] || return 0
  [[ $rows = *JOBID^STAT^JOB_NAME^SUBMIT_TIME^START_TIME^PEND_REASON^JOB_DESCRIPTION* ]] || return
  while IFS='^' read -r number state name submitted start why comment; do
    case $name$comment in *"$id"*) ;; *) continue ;; esac
    case $state in
      PEND | WAIT) reason=BeginTime state=PENDING ;;
      PSUSP) reason=JobHeldUser state=PENDING && [[ ! $why =~ admin|root ]] || reason=JobHeldAdmin ;;
      RUN | USUSP | SSUSP | UNKWN | PROV) reason=None state=RUNNING ;;
      ZOMBI) reason=None state=COMPLETING ;;
      *) continue ;;
    esac
    case $state in PENDING) start=${comment##*|} ;; *) start=$(instant "$start") ;; esac
    comment=${comment%|*}
    printf -v comment '%b' "${comment//%/\\x}"
    printf '%s|%s|%s|%s|%s|%s|%s\n' "$number" "$state" "$name" "$reason" "$start" "$(instant "$submitted")" "$comment"
  done <<<"$rows"
}
instant() {
  local at
  at=$(date -u -d "$1" +%s 2>/dev/null) || return 0
  [ "$at" -le "$((here + 86400))" ] || at=$(date -u -d "$1 $(($(date -u -d "@$here" +%Y) - 1))" +%s)
  printf '%s' "$((at + 30))"
}

# -b is in minutes, with the year: without it a minute that has passed is next year's.
moment() { TZ=UTC0 printf '%(%Y:%m:%d:%H:%M)T' "$((($1 + 59) / 60 * 60))"; }

# bsub takes no arguments: they are set in the text, in the place of this job's own.
hand_in() {
  local name=$1 at=$2 comment=${3//%/%25} nodes=$4 hold=$5 answer one where=()
  shift 5
  comment=${comment//|/%7C}
  for one in ${nodes//,/ }; do
    printf -v one "hname!='%s'" "$one"
    where=(-R "select[${where[1]+${where[1]:7:-1} && }$one]")
  done
  answer=$({
    printf '#!/bin/bash\nset --' && printf ' %q' "$@" && printf '\n'
    tail -n +2 "$copy" | grep -v '^set -- '
  } | lsf bsub ${hold:+-H} -rn -J "$name" -b "$(moment "$at")" -Jd "${comment//^/%5E}|$at" -o /dev/null -cwd / \
    "${options[@]}" ${where[@]+"${where[@]}"} 2>&1)
  [[ $answer =~ Job\ \<([0-9]+)\>\ is\ submitted\ to ]] && printf '%s\n' "${BASH_REMATCH[1]}" && return
  printf '%s\n' "$answer" >&2
  return 1
}

let_begin() { lsf bmod -b "$(moment "$2")" "$1" >/dev/null && lsf bresume "$1" >/dev/null; }

cancel() { lsf bkill "$@"; }
