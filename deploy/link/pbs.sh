# shellcheck shell=bash disable=SC2034,SC2154 # a part of deploy/scheduler.slurm.in, which has the names that are not set here
# PBS; what each function is for is told in slurm.sh, beside this file.
job=${PBS_JOBID:-0} node=${HOSTNAME:-}
job=${job%%.*}

# Two questions: whose jobs, and what these are; without an id the second would list everybody's. One that has ended
# between the two is left out, and the exit code tells it (153; 35 where a history is kept).
queue() {
  local ids rows row field number state name reason held begin start submitted comment
  ids=$(timeout "$limit" qselect -u "$(id -un)") || return
  [ -n "$ids" ] || return 0
  # shellcheck disable=SC2086 # ids are words
  rows=$(TZ=UTC0 timeout "$limit" qstat -f -F dsv -D '|' $ids 2>/dev/null)
  case $? in 0 | 35 | 153) ;; *) return 1 ;; esac
  while IFS='|' read -ra row; do
    number=${row[0]#Job Id: } state='' name='' held=n begin='' start='' submitted='' comment='' reason=None
    for field in "${row[@]}"; do
      case $field in
        Job_Name=*) name=${field#*=} ;;
        job_state=*) state=${field#*=} ;;
        Hold_Types=*) held=${field#*=} ;;
        Execution_Time=*) begin=${field#*=} ;;
        stime=*) start=${field#*=} ;;
        ctime=*) submitted=${field#*=} ;;
        Variable_List=*,cronhpc=*) comment=${field#*,cronhpc=} && comment=cronhpc=${comment%%,*} ;;
      esac
    done
    case $name in "$link" | "$spare") ;; *) continue ;; esac
    case $state in
      R) state=RUNNING ;;
      E) state=COMPLETING ;;
      *) state=PENDING start=$begin ;;
    esac
    [ "$state" != PENDING ] || case $held in
      n) [ -z "$begin" ] || reason=BeginTime ;;
      u) reason=JobHeldUser ;;
      *) reason=JobHeldAdmin ;;
    esac
    number=${number%%.*}
    # A comment cannot change when a tick moves a link; the record of that link does.
    if [ -e "$dir/scheduler/links/$number" ]; then comment=''; fi
    printf '%s|%s|%s|%s|%s|%s|%b\n' "$number" "$state" "$name" "$reason" "$(seconds "$start")" "$(seconds "$submitted")" \
      "${comment//%/\\x}"
  done <<<"$rows"
}
seconds() { [ -z "$1" ] || date -u -d "$1" +%s; }

# -a is read in the zone of who submits.
moment() { TZ=UTC0 printf '%(%Y%m%d%H%M.%S)T' "$1"; }

# A script gets no arguments: they are set in its text, in front of what a link begins with.
hand_in() {
  local name=$1 at=$2 comment=${3#cronhpc=} hold=$5 text begins="# A link of cronhpc's chain" before words answer
  shift 5
  comment=${comment//%/%25} && comment=${comment// /%20} && comment=${comment//,/%2C}
  comment=${comment//\'/%27} && comment=${comment//\"/%22} && comment=${comment//\\/%5C}
  text=$(<"$copy") && before=${text%%"$begins"*} || return
  words=${before%$'\n'} && words=${words##*$'\n'}
  case $words in 'set -- '*) before=${before%"$words"$'\n'} ;; esac
  printf -v words '%q ' "$@"
  answer=$(printf '%sset -- %s\n%s\n' "$before" "$words" "$begins${text#*"$begins"}" |
    TZ=UTC0 timeout "$limit" qsub -f ${hold:+-h} -r n -S /bin/bash -N "$name" -a "$(moment "$at")" -v "cronhpc=$comment" \
      -k oed -j oe -o /dev/null "${options[@]}") || return
  while read -r words; do
    case $words in [0-9]*.*) words=${words%%.*} ;; esac
    printf '%s\n' "$words"
  done <<<"$answer"
}

let_begin() { timeout "$limit" env TZ=UTC0 qalter -a "$(moment "$2")" -h n "$1"; }

cancel() { timeout "$limit" qdel "$@"; }
