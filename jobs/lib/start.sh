# shellcheck shell=bash
# What the ready-made jobs do last: start the Python file of jobs/lib that has their logic.

broken() { # MESSAGE: exit code 2
  echo "broken: $*" >&2
  exit 2
}

start() { # FILE ARGUMENT...: runs it in place of the shell, with the first Python that is new enough
  local name found
  for name in "${CRONHPC_PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 /usr/bin/python3; do
    found=$(command -v "$name") || continue
    "$found" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2> /dev/null || continue
    # shellcheck disable=SC2154 # the script that sources this says where lib is
    exec "$found" "$lib/$1" "${@:2}"
  done
  broken "python3 (3.9 or newer) is not on this node ($(uname -n)): it comes with the package python3, or a module"
}
