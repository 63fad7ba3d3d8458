# shellcheck shell=bash
# What demo, test and install share: to find a Python, and to make an environment on a machine where nothing is
# prepared: no venv module, no pip, no root. Packages are asked for by name, as pip and apt are set up here.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

say() { printf '%s\n' "$*"; }
warn() { printf '%s\n' "$*" >&2; }
fail() {
  warn "${0##*/}: $*"
  exit 1
}

is_root() { [ "$(id -u)" = 0 ]; }
has() { command -v "$1" >/dev/null 2>&1; }

# Modules, conda and people's profiles set these; any of them would take pip or Python elsewhere.
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PIP_TARGET PIP_PREFIX PIP_ROOT PIP_REQUIRE_VIRTUALENV __PYVENV_LAUNCHER__
export PIP_USER=0 PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_WARN_SCRIPT_LOCATION=1

# A path as a word of a command line that people copy.
word() {
  case $1 in
    *[!A-Za-z0-9_./:@%+=,~-]*) printf "'%s'" "${1//\'/\'\\\'\'}" ;;
    *) printf '%s' "$1" ;;
  esac
}

# Batch jobs and `env -i` may have no HOME; the user database knows it.
[ -n "${HOME-}" ] || HOME=$(getent passwd "$(id -u)" 2>/dev/null | cut -d: -f6)
export HOME

# A quiet command: what it prints is shown only if it fails.
quietly() {
  local answer code
  answer=$("$@" 2>&1 </dev/null)
  code=$?
  [ "$code" -eq 0 ] || warn "$answer" "" "failed (exit $code): $*"
  return "$code"
}

# --- Python

# The absolute path of a Python that is new enough; CRONHPC_PYTHON names one to be used.
find_python() {
  local name path real found seen='' tried=' '
  local PATH=$PATH:/usr/local/bin:/usr/bin
  for name in ${CRONHPC_PYTHON:+"$CRONHPC_PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3; do
    path=$(command -v "$name") || continue
    real=$(realpath -- "$path" 2>/dev/null || say "$path")
    case $tried in *" $real "*) continue ;; esac
    tried+="$real "
    # A name on PATH may be a wrapper that has nothing behind it: only one that answers counts.
    found=$("$path" -c 'import sys; print(sys.executable); print("%d.%d.%d" % sys.version_info[:3])
sys.exit(sys.version_info < (3, 11))' 2>&1 </dev/null) && [[ $found = /*$'\n'3.* ]] && say "${found%%$'\n'*}" && return
    case $found in
      /*$'\n'[23].*) seen+="${seen:+, }$path is ${found##*$'\n'}" ;;
      *) seen+="${seen:+, }$path does not start${found:+: ${found%%$'\n'*}}" ;;
    esac
    [ "$name" != "${CRONHPC_PYTHON-}" ] || break
  done
  warn "No Python of 3.11 or newer was found${seen:+ ($seen)}."
  if type module >/dev/null 2>&1; then
    warn "A module brings one here: module avail python; then, for example: module load python/3.12; and call this again."
  else
    warn "On a cluster a module brings one (module avail python); on Debian 12 or newer the package python3 does."
  fi
  warn "So do conda (conda create -n py312 python=3.12), uv (uv python install 3.12) and pyenv (pyenv install 3.12)."
  warn "One that lies elsewhere: CRONHPC_PYTHON=/path/to/python3 $0"
  return 1
}

# --- Debian's packages, where nothing is installed and nobody is root

# Unpack Debian packages into a folder of their own; nothing on the machine is changed. Fails without Debian.
unpacked_package() { # FOLDER PACKAGE...
  local folder=$1 store=$1.apt deb
  shift
  has apt-get && has dpkg-deb || return 1
  mkdir -p "$store/lists/partial" "$store/archives/partial" "$folder"
  if ! (cd "$store" && apt-get -qq download "$@") >/dev/null 2>&1 </dev/null; then
    # No package lists on this machine: some of our own.
    local apt=(apt-get -qq -o "Dir::State::lists=$store/lists" -o "Dir::Cache=$store" -o "APT::Sandbox::User=$(id -un)")
    if ! (cd "$store" && "${apt[@]}" update && "${apt[@]}" download "$@") >"$store/log" 2>&1 </dev/null; then
      warn "$(tail -n 3 "$store/log")"
      rm -rf "$store"
      return 1
    fi
  fi
  for deb in "$store"/*.deb; do dpkg-deb -x "$deb" "$folder" || return 1; done
  rm -rf "$store"
}

# pip trusts the machine's certificates; where there are none, Debian's own are used.
bring_certificates() { # FOLDER
  local settings
  for settings in /etc/pip.conf "$HOME"/.pip/pip.conf "${XDG_CONFIG_HOME:-$HOME/.config}"/pip/pip.conf; do
    if grep -qs '^ *cert *=' "$settings"; then return; fi
  done
  [ -z "${PIP_CERT-}${SSL_CERT_FILE-}${REQUESTS_CA_BUNDLE-}" ] || return 0
  [ ! -e /etc/ssl/certs/ca-certificates.crt ] && [ ! -e /etc/pki/tls/certs/ca-bundle.crt ] || return 0
  if [ ! -s "$1/certificates.pem" ]; then
    unpacked_package "$1/certificates" ca-certificates || return 0
    cat "$1"/certificates/usr/share/ca-certificates/*/*.crt >"$1/certificates.pem"
    rm -rf "$1/certificates"
  fi
  export PIP_CERT=$1/certificates.pem
}

# --- an environment

# Make an environment in FOLDER and install the words that follow there, as pip reads them. One that is complete, of
# the same Python and for the same words and pyproject.toml is left as it is, and needs no network.
make_environment() { # FOLDER PYTHON WORD...
  local folder=$1 python=$2 wanted
  shift 2
  # Where this environment is the active one, it is made of what it was made of: it does not outlive its own removal.
  [[ $python != "$folder"/* ]] || python=$("$python" -c 'import sys; print(sys._base_executable)') || return
  wanted="$("$python" -c 'import sys; print(sys.version, sys.executable)') $* $(cksum <"$top/pyproject.toml")"
  if [ "$(cat "$folder/complete" 2>/dev/null)" = "$wanted" ] && "$folder/bin/python" -c '' 2>/dev/null; then return; fi
  say "making an environment in $folder ($("$python" --version))"
  rm -rf "$folder"
  mkdir -p "$folder" || return
  bare_environment "$folder" "$python" || return
  bring_certificates "$folder"
  bring_pip "$folder" "$python" || return
  (cd "$top" && quietly "$folder/bin/python" -m pip install --quiet "$@") || return
  say "$wanted" >"$folder/complete"
}

# Debian has the venv module without what it needs to bring pip, or has no venv module: an environment is a link to
# Python beside a file that says so (PEP 405).
bare_environment() { # FOLDER PYTHON
  "$2" -m venv --without-pip "$1" >/dev/null 2>&1 </dev/null && return
  rm -rf "$1"
  "$2" - "$1" <<'PYTHON'
import os, sys
folder = sys.argv[1]
real = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
major, minor = sys.version_info[:2]
os.makedirs(f"{folder}/bin", exist_ok=True)
os.makedirs(f"{folder}/lib/python{major}.{minor}/site-packages", exist_ok=True)
for name in ("python", "python3", f"python{major}.{minor}"):
    os.symlink(real, f"{folder}/bin/{name}")
with open(f"{folder}/pyvenv.cfg", "w", encoding="utf-8") as file:
    file.write(f"home = {os.path.dirname(real)}\ninclude-system-site-packages = false\nversion = {major}.{minor}\n")
PYTHON
}

# pip comes from Python itself, from a pip that is here, or from Debian's package.
bring_pip() { # FOLDER PYTHON
  local own=$1/bin/python wheel place
  "$own" -m ensurepip --default-pip >/dev/null 2>&1 </dev/null && return
  place=$("$own" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') || return
  if "$2" -m pip --version >/dev/null 2>&1; then
    quietly "$2" -m pip install --quiet --target "$place" pip && return
  fi
  for wheel in /usr/share/python-wheels/pip-*.whl; do pip_from_wheel "$own" "$wheel" && return; done
  unpacked_package "$1/wheels" python3-pip-whl &&
    for wheel in "$1"/wheels/usr/share/python-wheels/pip-*.whl; do
      pip_from_wheel "$own" "$wheel" && rm -rf "$1/wheels" && return
    done
  warn "There is no pip for $2, and none could be fetched." "On Debian or Ubuntu, as root: apt-get install -y python3-venv" \
    "Elsewhere: the distribution's python3-pip, or a Python from a module (module avail python)."
  return 1
}

pip_from_wheel() { # PYTHON WHEEL
  [ -e "$2" ] && quietly "$1" "$2/pip" install --quiet --no-index --no-deps "$2"
}

# Where environments of this checkout lie; elsewhere if the checkout is not ours to write to.
environments() {
  case ${CRONHPC_ENV-} in
    /*) say "$CRONHPC_ENV" ;;
    ?*) say "$PWD/$CRONHPC_ENV" ;;
    *) if [ -w "$top" ]; then say "$top/.env"; else say "${XDG_CACHE_HOME:-$HOME/.cache}/cronhpc/env"; fi ;;
  esac
}

# --- what is left behind

# Everything started from now on carries this word, whatever session or group it makes for itself.
mark_descendants() {
  mark=$$-$RANDOM-$RANDOM
  export CRONHPC_STARTED_BY=${CRONHPC_STARTED_BY-}:$mark
}

# Their process ids. (What is only a subshell of a script has the environment that the script itself was started in.)
descendants() {
  local all=(/proc/[0-9]*/environ) # before grep is there to find itself
  grep -lsz "^CRONHPC_STARTED_BY=.*:$mark" "${all[@]}" | grep -o '[0-9]*'
}

# Whether all of them have ended, or do within so many tenths of a second.
all_ended() { # TENTHS
  local i
  for ((i = 0; i < $1; i++)); do
    [ -n "$(descendants)" ] || return 0
    sleep 0.1
  done
  return 1
}

# What still runs, a line each: process id and command. What is about to end is given the time.
left_behind() { # TENTHS
  local pid
  all_ended "$1" || for pid in $(descendants); do
    printf '  %s %s\n' "$pid" "$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline")"
  done
}

end_descendants() {
  local pid signal
  for signal in TERM TERM KILL; do
    for pid in $(descendants); do kill "-$signal" "$pid" 2>/dev/null; done
    ! all_ended 30 || return 0
  done
}
