# shellcheck shell=bash disable=SC2034,SC2154 # a part of deploy/scheduler.slurm.in, which has the names that are not set here
# Grid Engine; what each function is for is told in slurm.sh, beside this file.
job=${JOB_ID:-0} node=${HOSTNAME:-}

# Two questions: who is in which state, and what these are; and one more where some are held. Where the master gives
# no answer qstat prints another root, and ends with 0.
queue() {
  local me listed details held tag value number='' ids='' key='' name submitted begin start comment
  local -A states=() by_user=()
  me=$(id -un)
  listed=$(timeout "$limit" qstat -xml -s a -u "$me") && [[ $listed = *'<job_info '* ]] || return
  while IFS='<>' read -r _ tag value _; do
    case $tag in
      JB_job_number) number=$value ;;
      JB_name) case $value in "$link" | "$spare") ids+=,$number ;; esac ;;
      state) states[$number]=$value ;;
    esac
  done <<<"$listed"
  [ -n "$ids" ] || return 0
  if [[ ${states[*]} = *h* ]]; then
    held=$(timeout "$limit" qstat -xml -s hu -u "$me") && [[ $held = *'<job_info '* ]] || return
    while IFS='<>' read -r _ tag value _; do [ "$tag" != JB_job_number ] || by_user[$value]=yes; done <<<"$held"
  fi
  details=$(timeout "$limit" qstat -xml -j "${ids#,}") || return
  case $details in *'<detailed_job_info '*) ;; *'<unknown_jobs'*) return 0 ;; *) return 1 ;; esac
  number=''
  while IFS='<>' read -r _ tag value _; do
    case $tag in
      JB_job_number)
        [ -z "${states[${number:-0}]-}" ] || printed
        number=$value submitted='' begin=0 start='' comment='' name=''
        ;;
      JB_job_name) name=$value ;;
      JB_submission_time) submitted=$value ;;
      JB_execution_time) begin=$value ;;
      JAT_start_time) start=$value ;;
      VA_variable) key=$value ;;
      VA_value) [ "$key" != cronhpc ] || printf -v comment '%b' "${value//%/\\x}" ;;
    esac
  done <<<"$details
<JB_job_number>"
}
printed() {
  local state=${states[$number]} reason=None
  case $state in
    *E*) reason="in an error state, held until: qmod -cj $number" ;;
    *t*) # its node has not said since that it runs
      if [ "${start:-0}" -gt 0 ] && [ "$start" -lt "$((here - 900))" ]; then
        reason="stuck in its start, held until: qdel -f $number" state=q begin=$start
      fi
      ;;
    *h*) if [ -n "${by_user[$number]-}" ]; then reason=JobHeldUser; else reason=JobHeldAdmin; fi ;;
    *q*) [ "$begin" = 0 ] || reason=BeginTime ;;
  esac
  case $state in
    *q*) state=PENDING start=$begin ;;
    *d*) state=COMPLETING ;;
    *) state=RUNNING ;;
  esac
  printf '%s|%s|%s|%s|%s|%s|%s\n' "$number" "$state" "$name" "$reason" "$start" "$submitted" "$comment"
}

# -a is read in the zone of who submits.
moment() { TZ=UTC0 printf '%(%Y%m%d%H%M.%S)T' "$1"; }

context() {
  local comment=${1//%/%25}
  comment=${comment//,/%2C}
  printf '%s' "cronhpc=${comment//</%3C}"
}

hand_in() {
  local name=$1 at comment nodes=$4 hold=$5
  at=$(moment "$2") comment=$(context "$3")
  shift 5
  TZ=UTC0 timeout "$limit" qsub -terse -S /bin/bash ${hold:+-h} -r n -N "$name" -a "$at" -ac "$comment" \
    -o /dev/null -j y -wd / "${options[@]}" ${nodes:+-l "h=!(${nodes//,/|})"} "$copy" "$@"
}

let_begin() {
  TZ=UTC0 timeout "$limit" qalter -a "$(moment "$2")" "$1" >/dev/null && timeout "$limit" qrls "$1" >/dev/null
}

cancel() { timeout "$limit" qdel "$@"; }

# What is changed of a job that runs counts once it begins anew; 99 is the exit code that puts it back.
begin_again() {
  TZ=UTC0 timeout "$limit" qalter -a "$(moment "$1")" -N "$link" -ac "$(context "$2")" "$job" >/dev/null &&
    trap 'exit 99' EXIT
}
