#!/bin/bash
# Which nodes are drained or down, why, since when and by whom; the same reason on one line.
#
#   drained-nodes.sh [PARTITION]
#
set -euo pipefail
where=()
[ $# -eq 0 ] || where=(--partition="$1")
list=$(sinfo --noheader --list-reasons "${where[@]}" --format='%E|%u|%H|%N')
if [ -z "$list" ]; then
  echo "no node is drained or down"
  exit 0
fi
# Since when: the first of them. The most nodes first.
awk -F '|' '
  { n = split($4, parts, /,/); key = $1 " (" $2 ")"; nodes[key] = nodes[key] (key in nodes && nodes[key] != "" ? "," : "") $4
    if (!(key in since) || $3 < since[key]) since[key] = $3; count[key] += n }
  END { for (key in nodes) printf "%d\t%s\t%s\t%s\n", count[key], nodes[key], since[key], key }' <<< "$list" |
  sort -rn | cut -f 2- | while IFS=$'\t' read -r nodes since why; do
  printf '%s: %s, since %s\n' "$(scontrol show hostlist "$(scontrol show hostnames "$nodes" | paste -sd,)")" "$why" "$since"
done
