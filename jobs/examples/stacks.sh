#!/bin/bash
# stacks: where every rank of a running job is, line by line.
# For a Python job that hangs. It needs py-spy (pip install py-spy).
#
#   stacks.sh JOB
#
set -euo pipefail
[ $# -eq 1 ] || { echo "which job? ${0##*/} JOB" >&2; exit 2; }
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
stacks=${CRONHPC_JOBS_LIB:-$here/../lib}/stacks.sh
[ -e "$stacks" ] || { echo "there is no $stacks: set CRONHPC_JOBS_LIB to jobs/lib of cronhpc" >&2; exit 2; }
nodes=$(squeue --noheader --jobs="$1" --format=%D)
[ -n "$nodes" ] || { echo "job $1 does not run" >&2; exit 1; }
# --overlap: beside what runs there, without CPUs or GPUs of its own
exec srun --jobid="$1" --overlap --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 --gres=none --mem=0 --input=none \
  bash "$stacks" "$1"
