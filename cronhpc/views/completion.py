"""Shell completion as text: a function that knows the commands and options of this version, and looks names up itself.

It starts no Python: entries are the `.slurm` files of the cron directory, switches the files in kill/ and pause/. zsh
runs the same function by its bashcompinit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SHELLS = ("bash", "zsh")

_ZSH = """\
autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
"""

_BASH = """\
# Completion of cronhpc @VERSION@ for @SHELL@, printed by: cronhpc --completion @SHELL@
# Put it into your ~/.@SHELL@rc, or into a file that this reads.
@PRELUDE@
_cronhpc_dir() { # the cron directory that is meant
  local i
  for ((i = 1; i < ${#COMP_WORDS[@]} - 1; i++)); do
    [ "${COMP_WORDS[i]}" != --dir ] || { printf '%s' "${COMP_WORDS[i + 1]}" && return; }
  done
  if [ -n "${CRONHPC_DIR-}" ]; then printf '%s' "$CRONHPC_DIR"
  elif [ -n "${WORK-}" ]; then printf '%s' "$WORK/cron"
  else printf '%s' "$HOME/cron"; fi
}

_cronhpc_reply() { # those of the words behind the first that begin with it
  local word=$1 each
  shift
  for each in "$@"; do
    case $each in "$word"*) COMPREPLY+=("$each") ;; esac
  done
}

_cronhpc_said() { # whether one of the words stands before the one that is completed
  local each i
  for each in "$@"; do
    for ((i = 1; i < COMP_CWORD; i++)); do [ "${COMP_WORDS[i]}" != "$each" ] || return 0; done
  done
  return 1
}

_cronhpc_found() { # names of what lies in folders of the cron directory: WORD SUFFIX FOLDER...
  local word=$1 suffix=$2 dir each name
  shift 2
  dir=$(_cronhpc_dir)
  dir=${dir/#\\~/$HOME}
  while IFS= read -r each; do
    name=${each##*/}
    name=${name%"$suffix"}
    case $name in "$word"*) COMPREPLY+=("$(printf '%q' "$name")") ;; esac
  done < <(cd "$dir" 2>/dev/null && find $* -mindepth 1 -maxdepth 1 -name "*$suffix" ! -name '.*' 2>/dev/null | sort)
}

_cronhpc_files() { # WORD KIND: f for files, d for folders; the word is as it was typed, with its ~, \\ or quote
  local each plain=$1 home='' tilde='~/' quote=''
  case ${ZSH_VERSION-}$1 in [\\"\\']*) quote=1 ;; esac # bash adds to what stands behind the quote; zsh replaces it too
  plain=${plain#[\\"\\']}
  plain=${plain//\\\\/}
  case $plain in "~/"*) home=$HOME && plain=$HOME/${plain#??} ;;
    '$HOME/'*) home=$HOME && tilde='$HOME/' && plain=$HOME/${plain#??????} ;; esac
  while IFS= read -r each; do
    if [ -n "$home" ]; then each=${each#"$home"} && each=${each#/}; fi
    if [ -z "$quote" ]; then each=$(printf '%q' "$each")
    else case $each in *[\\"\\'\\$\\\\\\`]*) continue ;; esac
    fi
    COMPREPLY+=("${home:+$tilde}$each")
  done < <(compgen "-$2" -- "$plain")
}

_cronhpc() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' lead='' i
  COMPREPLY=()
  # --option=value: three words to bash, one to zsh.
  if [ "$word" = = ]; then word=''
  elif [ "$before" = = ]; then before=${COMP_WORDS[COMP_CWORD - 2]}
  else case $word in --*=*) before=${word%%=*} && lead=$before= && word=${word#*=} ;; esac
  fi
  _cronhpc_words
  [ -z "$lead" ] || for ((i = 0; i < ${#COMPREPLY[@]}; i++)); do COMPREPLY[i]=$lead${COMPREPLY[i]}; done
}

_cronhpc_words() { # word, before, command: the caller's
  local i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --dir | --backend | --completion | --reference) [ "${COMP_WORDS[i + 1]}" = = ] || ((i += 1)) ;;
      =) ((i += 1)) ;;
      -*) ;;
      *) command=${COMP_WORDS[i]} && break ;;
    esac
  done
  case $before in
    --dir) _cronhpc_files "$word" d && return ;;
    --backend) _cronhpc_reply "$word" slurm local && return ;;
    --completion) _cronhpc_reply "$word" @SHELLS@ && return ;;
    --reference) _cronhpc_reply "$word" markdown man && return ;;
  esac
  case "$command $before" in
@VALUES@
  esac
  case $command in
    '')
      case $word in
        -*) _cronhpc_reply "$word" --help --version --completion --reference @COMMON@ ;;
        *) _cronhpc_reply "$word" @COMMANDS@ ;;
      esac
      ;;
@OPTIONS@
  esac
}
complete -F _cronhpc cronhpc
"""
_ENTRIES = "_cronhpc_found \"$word\" .slurm 'cron.*'"
_KINDS = {
    "entry": _ENTRIES,
    "kill": "_cronhpc_found \"$word\" '' kill",
    "pause": f"{_ENTRIES}; _cronhpc_found \"$word\" '' pause",
    "file": '_cronhpc_files "$word" f',
    "entry or file": f'{_ENTRIES}; _cronhpc_files "$word" f',
}


@dataclass(frozen=True, slots=True)
class Words:
    """What one command takes. A kind is "" (anything), "file", "entry", "entry or file", "kill", "pause"."""

    options: Mapping[str, Sequence[str] | str | None]  # None: a flag; else its choices, or a kind
    positional: str = ""
    choices: Sequence[str] = ()


def render(commands: Mapping[str, Words], common: Sequence[str], shell: str, version: str) -> str:
    """The text to be read by `shell` (bash or zsh)."""
    values = [f"    {pattern}) {do} && return ;;" for pattern, do in _values(commands)]
    options = [line for name, words in commands.items() for line in _command(name, words, common)]
    filled = {
        "VERSION": version,
        "SHELLS": " ".join(SHELLS),
        "SHELL": shell,
        "PRELUDE": _ZSH if shell == "zsh" else "",
        "COMMON": " ".join(common),
        "COMMANDS": " ".join(commands),
        "VALUES": "\n".join(values),
        "OPTIONS": "\n".join(options),
    }
    text = _BASH
    for name, value in filled.items():
        text = text.replace(f"@{name}@", value)
    return text


def _values(commands: Mapping[str, Words]) -> list[tuple[str, str]]:
    """For each option with a value: the pattern of "command option", and what completes the value."""
    rows = []
    for name, words in commands.items():
        free = [option for option, value in words.options.items() if value == ""]
        for option, value in words.options.items():
            if value and isinstance(value, str):
                rows.append((f'"{name} {option}"', _KINDS[value]))
            elif value:
                rows.append((f'"{name} {option}"', f'_cronhpc_reply "$word" {" ".join(value)}'))
        if free:
            rows.append((" | ".join(f'"{name} {option}"' for option in free), "true"))
    return rows


def _command(name: str, words: Words, common: Sequence[str]) -> list[str]:
    options = " ".join([*words.options, *common, "--help", "--version"])
    do = _KINDS.get(words.positional, "true")
    if words.choices:
        choices = " ".join(words.choices)
        do = f'if _cronhpc_said {choices}; then {do}; else _cronhpc_reply "$word" {choices}; fi'
    return [
        f"    {name})",
        f'      case $word in -*) _cronhpc_reply "$word" {options} ;; *) {do} ;; esac',
        "      ;;",
    ]
