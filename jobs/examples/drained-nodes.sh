#!/bin/bash
# drained-nodes: which nodes are drained, why, since when.
# And by whom; those that are down, too. Nodes of one reason are on one line.
#
#   drained-nodes.sh [PARTITION]
#
set -euo pipefail
where=()
[ $# -eq 0 ] || where=(--partition="$1")
mark=$'\x1f' # stands in no reason
list=$(sinfo --noheader --list-reasons ${where[@]+"${where[@]}"} --format="%E$mark%u$mark%H$mark%N")
if [ -z "$list" ]; then
  echo "no node is drained or down"
  exit 0
fi
declare -A nodes=() since=()
while IFS=$mark read -r reason who when names; do
  key="$reason ($who)"
  nodes[$key]+="${nodes[$key]:+,}$names"
  if [ -z "${since[$key]-}" ] || [[ $when < ${since[$key]} ]]; then since[$key]=$when; fi
done <<< "$list"
for key in "${!nodes[@]}"; do
  mapfile -t names < <(scontrol show hostnames "${nodes[$key]}")
  printf '%d\t%s: %s, since %s\n' "${#names[@]}" "$(scontrol show hostlist "$(IFS=,; echo "${names[*]}")")" "$key" "${since[$key]}"
done | sort -rn | cut -f 2- # the most nodes first
