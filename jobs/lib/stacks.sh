#!/bin/bash
# The Python stacks of every rank of a job on this node, with py-spy.
# stall-watch starts it, or a person does: srun --overlap --jobid=JOB --ntasks-per-node=1 bash stacks.sh JOB
# It runs on each node of the job, and finds the ranks by what Slurm has put into their environments.

job=$1 node=${SLURMD_NODENAME:-$(uname -n)} found=no

of() { # PROCESS NAME: a variable of its environment
  tr '\0' '\n' 2> /dev/null < "/proc/$1/environ" | sed -n "s/^$2=//p" | head -n 1
}

ranks() { # 0 (1 for none, "-"), rank, step and number of each Python process of the job, less those of the step that asks
  local file pid at step rank
  while read -r file; do
    pid=${file//[!0-9]/} at=$(of "$pid" SLURMD_NODENAME) step=$(of "$pid" SLURM_STEP_ID)
    case $(readlink "/proc/$pid/exe") in */python* | */pypy*) ;; *) continue ;; esac
    [ -z "$at" ] || [ "${SLURMD_NODENAME:-$at}" = "$at" ] || continue # two nodes may share one machine, in tests at least
    [ -z "$step" ] || [ "$job.$step" != "${SLURM_JOB_ID:-}.${SLURM_STEP_ID:-}" ] || continue
    rank=$(of "$pid" RANK) # as torchrun says it, else Slurm
    [ -n "$rank" ] || [ -z "$step" ] || rank=$(of "$pid" SLURM_PROCID)
    echo "$([ -n "$rank" ] && echo 0 || echo 1) ${rank:--} ${step:--} $pid"
  done < <(grep -lzx "SLURM_JOB_ID=$job" /proc/[0-9]*/environ 2> /dev/null)
}

stack() { # PROCESS: what py-spy says of it, or why it says nothing; without py-spy the kernel's word
  local said place
  if ! command -v py-spy > /dev/null; then
    place=$(cat "/proc/$1/wchan" 2> /dev/null)
    case $place in '' | 0) place='' ;; *) place=", waits in $place" ;; esac
    said=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2> /dev/null)
    echo "state ${said:-unknown}$place (no stack: py-spy is not here: pip install py-spy)"
  elif said=$(timeout 20 py-spy dump --pid "$1" 2>&1); then
    sed 1d <<< "$said" # its first line names the process, as ours does
  else
    case $?:$said in
      124:*) said="it did not end within 20 s" ;;
      *ermission*) said="$said; the kernel allows it to root only here (kernel.yama.ptrace_scope)" ;;
    esac
    echo "py-spy: $(paste -s -d ' ' <<< "$said")"
  fi
}

while read -r _ rank step pid; do
  found=yes who="rank $rank" words=$(tr '\0\n' '  ' 2> /dev/null < "/proc/$pid/cmdline" | cut -c 1-120)
  [ "$step" = - ] || who+=" of step $step"
  [ "$rank" != - ] || who="the batch script"
  block=$(printf '== %s: %s, process %s: %s\n' "$node" "$who" "$pid" "${words% }" && stack "$pid")
  # one write a block: the nodes' outputs are mixed line by line otherwise
  echo "$block" | LC_ALL=C sed 's/[[:cntrl:]]/?/g' | dd bs=1M iflag=fullblock status=none
done < <(ranks | sort -k 1,1n -k 2,2n -k 4,4n)
[ $found = yes ] || echo "== $node: no Python process of job $job here"
