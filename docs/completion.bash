# Completion of cronhpc 0.1.0 for bash and zsh, printed by: cronhpc --completion bash
# Put it into your ~/.bashrc or ~/.zshrc, or into a file that this reads.
# Do not edit: this is written by: python -m docs.generate
# shellcheck disable=SC2016,SC2048,SC2086,SC2088 # names of folders are patterns; ~ and $HOME are what was typed
[ -z "${ZSH_VERSION-}" ] || { autoload -U +X compinit && compinit; autoload -U +X bashcompinit && bashcompinit; }

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
  dir=${dir/#\~/$HOME}
  while IFS= read -r each; do
    name=${each##*/}
    name=${name%"$suffix"}
    case $name in "$word"*) COMPREPLY+=("$(printf '%q' "$name")") ;; esac
  done < <(cd "$dir" 2>/dev/null && find $* -mindepth 1 -maxdepth 1 -name "*$suffix" ! -name '.*' 2>/dev/null | sort)
}

_cronhpc_files() { # WORD KIND: f for files, d for folders; the word is as it was typed, with its ~, \ or quote
  local each plain=$1 home='' tilde='~/' quote=''
  case ${ZSH_VERSION-}$1 in [\"\']*) quote=1 ;; esac # bash adds to what stands behind the quote; zsh replaces it too
  plain=${plain#[\"\']}
  plain=${plain//\\/}
  case $plain in "~/"*) home=$HOME && plain=$HOME/${plain#??} ;;
    '$HOME/'*) home=$HOME && tilde='$HOME/' && plain=$HOME/${plain#??????} ;; esac
  while IFS= read -r each; do
    if [ -n "$home" ]; then each=${each#"$home"} && each=${each#/}; fi
    if [ -z "$quote" ]; then each=$(printf '%q' "$each")
    else case $each in *[\"\'\$\\\`]*) continue ;; esac
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
    --backend) _cronhpc_reply "$word" slurm grid_engine pbs lsf local && return ;;
    --completion) _cronhpc_reply "$word" bash zsh && return ;;
    --reference) _cronhpc_reply "$word" markdown man && return ;;
  esac
  case "$command $before" in
    "init --group") true && return ;;
    "start --via") _cronhpc_reply "$word" chain scrontab login && return ;;
    "start --prequeue") true && return ;;
    "doctor --wait" | "doctor --url") true && return ;;
    "status --out") _cronhpc_files "$word" f && return ;;
    "status --watch") true && return ;;
    "next --schedule" | "next --timezone" | "next --after" | "next -n") true && return ;;
    "history --sort") _cronhpc_reply "$word" slot took waited entry result && return ;;
    "history --state" | "history --since" | "history -n") true && return ;;
    "logs --run" | "logs --job" | "logs -n" | "logs --lines") true && return ;;
    "page --out") _cronhpc_files "$word" f && return ;;
    "add --schedule" | "add --as") true && return ;;
    "check --format") _cronhpc_reply "$word" text json github && return ;;
    "pause --reason" | "pause --expires") true && return ;;
    "kill --reason" | "kill --expires") true && return ;;
    "import --timezone") true && return ;;
    "again --until") _cronhpc_files "$word" f && return ;;
    "again --every" | "again --cron" | "again --until-time" | "again --max-runs" | "again --max-fast-failures" | "again --fast" | "again --name" | "again --timezone") true && return ;;
    "guard --kill-switch") _cronhpc_files "$word" f && return ;;
    "guard --grace" | "guard --signal" | "guard --every" | "guard --warn-before-end") true && return ;;
    "tick --link" | "tick --avoid") true && return ;;
    "daemon --for" | "daemon --link" | "daemon --avoid") true && return ;;
  esac
  case $command in
    '')
      case $word in
        -*) _cronhpc_reply "$word" --help --version --dir --backend --json --completion --reference ;;
        *) _cronhpc_reply "$word" init start stop doctor status list show next history logs page add edit rm run rerun check pause resume kill unkill clean import again guard plan tick daemon ;;
      esac
      ;;
    init)
      case $word in -*) _cronhpc_reply "$word" --group --adopt --cancel-old --dir --backend --json --help --version ;; *) true ;; esac
      ;;
    start)
      case $word in -*) _cronhpc_reply "$word" --if-stale --via --beside --daemon --prequeue --dir --backend --json --help --version ;; *) true ;; esac
      ;;
    stop)
      case $word in -*) _cronhpc_reply "$word" --dir --backend --json --help --version ;; *) true ;; esac
      ;;
    doctor)
      case $word in -*) _cronhpc_reply "$word" --submit --wait --write --alerts --url --dir --backend --json --help --version ;; *) true ;; esac
      ;;
    status)
      case $word in -*) _cronhpc_reply "$word" --all --prometheus --out --nagios --watch --dir --backend --json --help --version ;; *) _cronhpc_found "$word" .slurm 'cron.*' ;; esac
      ;;
    list)
      case $word in -*) _cronhpc_reply "$word" --dir --backend --json --help --version ;; *) true ;; esac
      ;;
    show)
      case $word in -*) _cronhpc_reply "$word" --dir --backend --json --help --version ;; *) _cronhpc_found "$word" .slurm 'cron.*' ;; esac
      ;;
    next)
      case $word in -*) _cronhpc_reply "$word" --schedule --timezone --after -n --dir --backend --json --help --version ;; *) _cronhpc_found "$word" .slurm 'cron.*' ;; esac
      ;;
    history)
      case $word in -*) _cronhpc_reply "$word" --state --since --sort -n --dir --backend --json --help --version ;; *) _cronhpc_found "$word" .slurm 'cron.*' ;; esac
      ;;
    logs)
      case $word in -*) _cronhpc_reply "$word" -f --follow --run --job -n --lines --dir --backend --json --help --version ;; *) _cronhpc_found "$word" .slurm 'cron.*' ;; esac
      ;;
    page)
      case $word in -*) _cronhpc_reply "$word" --out --dir --backend --json --help --version ;; *) true ;; esac
      ;;
    add)
      case $word in -*) _cronhpc_reply "$word" --schedule --as --dir --backend --json --help --version ;; *) true ;; esac
      ;;
    edit)
      case $word in -*) _cronhpc_reply "$word" --dir --backend --json --help --version ;; *) _cronhpc_found "$word" .slurm 'cron.*' ;; esac
      ;;
    rm)
      case $word in -*) _cronhpc_reply "$word" -y --yes --dir --backend --json --help --version ;; *) _cronhpc_found "$word" .slurm 'cron.*' ;; esac
      ;;
    run)
      case $word in -*) _cronhpc_reply "$word" --again --wait -f --follow --dir --backend --json --help --version ;; *) _cronhpc_found "$word" .slurm 'cron.*' ;; esac
      ;;
    rerun)
      case $word in -*) _cronhpc_reply "$word" --wait -f --follow --dir --backend --json --help --version ;; *) _cronhpc_found "$word" .slurm 'cron.*' ;; esac
      ;;
    check)
      case $word in -*) _cronhpc_reply "$word" --online --offline --strict --format --dir --backend --json --help --version ;; *) _cronhpc_found "$word" .slurm 'cron.*'; _cronhpc_files "$word" f ;; esac
      ;;
    pause)
      case $word in -*) _cronhpc_reply "$word" --reason --expires --anyway --dir --backend --json --help --version ;; *) _cronhpc_found "$word" .slurm 'cron.*' ;; esac
      ;;
    resume)
      case $word in -*) _cronhpc_reply "$word" --dir --backend --json --help --version ;; *) _cronhpc_found "$word" .slurm 'cron.*'; _cronhpc_found "$word" '' pause ;; esac
      ;;
    kill)
      case $word in -*) _cronhpc_reply "$word" --reason --expires --anyway --dir --backend --json --help --version ;; *) _cronhpc_found "$word" .slurm 'cron.*' ;; esac
      ;;
    unkill)
      case $word in -*) _cronhpc_reply "$word" --dir --backend --json --help --version ;; *) _cronhpc_found "$word" '' kill ;; esac
      ;;
    clean)
      case $word in -*) _cronhpc_reply "$word" --dry-run -n --all --dir --backend --json --help --version ;; *) true ;; esac
      ;;
    import)
      case $word in -*) _cronhpc_reply "$word" --dry-run --system --timezone --dir --backend --json --help --version ;; *) if _cronhpc_said crontab scrontab; then _cronhpc_files "$word" f; else _cronhpc_reply "$word" crontab scrontab; fi ;; esac
      ;;
    again)
      case $word in -*) _cronhpc_reply "$word" --every --cron --after --until --until-time --max-runs --max-fast-failures --fast --name --timezone --dir --backend --json --help --version ;; *) true ;; esac
      ;;
    guard)
      case $word in -*) _cronhpc_reply "$word" --kill-switch --grace --signal --every --warn-before-end --dir --backend --json --help --version ;; *) true ;; esac
      ;;
    plan)
      case $word in -*) _cronhpc_reply "$word" --dir --backend --json --help --version ;; *) true ;; esac
      ;;
    tick)
      case $word in -*) _cronhpc_reply "$word" --link --avoid --doubt-clock --dir --backend --json --help --version ;; *) true ;; esac
      ;;
    daemon)
      case $word in -*) _cronhpc_reply "$word" --poll --for --link --avoid --doubt-clock --dir --backend --json --help --version ;; *) true ;; esac
      ;;
  esac
}
complete -F _cronhpc cronhpc
