"""Shell habits that go wrong in a batch job though no tool complains. Each is a guess from text: few and sure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from cronhpc.core import model
from cronhpc.core.model import Problem
from cronhpc.script.dialect import SLURM, Dialect
from cronhpc.script.header import Header
from cronhpc.script.sbatch_options import BLANKS, DASHES, QUOTES, UNSEEN, changed, fault, time_limit
from cronhpc.script.shell_text import (
    SELF,
    VARIABLE,
    Interpreter,
    Piece,
    bare,
    commands,
    interpreter,
    lex,
    mask,
    self_submissions,
)
from cronhpc.script.spelling import directive

_SELF_FOLDER = re.compile(
    rf"(?:\bdirname\s+(?:--\s+)?|\brealpath\s+(?:-\S+\s+)*|\breadlink\s+(?:-\S+\s+)*){SELF}"
    r"|\$\{(?:0|BASH_SOURCE(?:\[0\])?)%/\*\}"
)
_SETS_UP = re.compile(
    r"(?:^|[\s;&])(?:source|\.)\s+\S*"
    r"(?:/etc/profile|/etc/bashrc|modules?\.sh|lmod|/init/\w+|bashrc|profile|conda\.sh|bin/activate)"
    r"|(?:conda|mamba)\S*\s+[\"']?shell\b|modulecmd"
    r"|(?:command\s+-v|type|hash|declare\s+-f|which)\s+(?:-\w+\s+)?(?:module|ml|conda)\b|\bmodule\s*\(\)",
    re.IGNORECASE,
)
_SINKS = frozenset(
    {"grep", "egrep", "fgrep", "rg", "while", "until", "for", "xargs", "mail", "mailx", "sendmail", "sh", "bash"}
)
_HARMLESS = frozenset({"echo", "printf", "cat", "date", "true", ":", "yes", "seq"})

_TOKEN = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[A-Za-z0-9_-]{20,}"
    r"|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,})"
)
_URL_SECRET = re.compile(r"\b[a-z][a-z0-9+.-]*://[^/\s:@'\"]*:[^/\s@]+@", re.IGNORECASE)
_FLAG_SECRET = re.compile(
    r"(?:^|\s)--?(?:password|passwd|pass|token|api[-_]?key|apikey|secret|access[-_]?(?:token|key)|secret[-_]key)"
    r"(?:=|\s+)[\"']?(?![\"']?\s|-|\d+(?:\s|$))[^\s\"'<|;&]",
    re.IGNORECASE,
)
_HEADER_SECRET = re.compile(r"\bAuthorization:\s*(?:Bearer|Basic|token)\s+\S", re.IGNORECASE)
_LOGIN_SECRET = re.compile(
    r"\bcurl\b.*\s(?:-u|--user)[=\s]*[\"']?[^\s:\"']+:[^\s\"']|\bsshpass\s+-p|\bmysql\w*\b.*\s-p[\"'$\w]"
    r"|\bwandb\s+login\b.*\s[\"']?[A-Za-z0-9]{40}\b"
)
_SET_SECRET = re.compile(
    r"\b\w*(?:TOKEN|PASSWORD|PASSWD|SECRET|API_?KEY)=[\"']?(?=[^\s\"'$]*\d)[A-Za-z0-9+/_=.-]{16,}", re.IGNORECASE
)
_BESIDE_SECRETS = (  # one of these, in lower case
    *("://", "pass", "token", "key", "secret", "authorization", "curl", "mysql", "wandb"),
    *("hf_", "gh", "glpat-", "sk-", "xox", "akia", "aiza"),
)

_SQUEUE = re.compile(r"\b(?:squeue|sacct)\b")
_BY_NAME = re.compile(r"\s(?:-n|--name|--jobname)(?:=|\s*)(\"[^\"]*\"|'[^']*'|\S+)")
_GREP = re.compile(r"^(?:[ef]?grep|rg)\s+(?P<flags>(?:-\w+\s+)*)(?P<pattern>\"[^\"]*\"|'[^']*'|\S+)")
_ASSIGNED = re.compile(r"^(?:export\s+|local\s+|readonly\s+)?([A-Za-z_]\w*)=(\"[^\"$`]*\"|'[^']*'|[^\s;\"'$`]*)")
_OWN_ID = re.compile(r"SLURM_JOB_?ID")


def habits(
    text: str,
    header: Header,
    is_function: Callable[[str], bool] | None = None,
    *,
    scheduled: bool = True,
    dialect: Dialect = SLURM,
) -> Iterator[Problem]:
    """What the commands of a shell script do that a batch job punishes, and secrets in any script.

    `is_function`: of the shell, in the environment that runs get, which bash has without any set-up. `scheduled`: it is
    an entry, or has a schedule of its own.
    """
    by = interpreter(text.partition("\n")[0])
    pieces = lex(text) if by.is_shell else ()
    code = tuple(p for p in pieces if not p.comment)
    # A rule is asked where the text has words without which it says nothing: most scripts have few of them.
    yield from _secrets(text, code, header)
    mentions_jobs = "sbatch" in text or "scontrol" in text or "again" in text
    itself = tuple(_submits_itself(code, header, scheduled=scheduled)) if mentions_jobs else ()
    yield from itself
    if "$0" in text or "{0" in text or "BASH_SOURCE" in text:
        yield from _own_folder(code, {each.line for each in itself}, dialect)
    if "cd" in text or "pushd" in text:
        yield from _relative_cd(code, header, dialect)
    if _SUBMITTED_FROM.search(text):
        yield from _submit_folder(code, dialect)
    if _USUAL_LOG.search(text):
        yield from _log_by_name(code, header, dialect)
    if "module" in text or "ml" in text or "activate" in text:
        yield from _modules(code, by, is_function if by.name == "bash" else None)
    if not text.isascii():
        yield from _word_processed(code)
    yield from _signals(code, header)
    if "|" in text:
        yield from _lost_exit_code(code, by)
    if "&" in text:
        yield from _left_in_background(code)
    if dialect.as_sbatch and ("squeue" in text or "sacct" in text):  # it knows squeue alone
        yield from _watches_itself(code, header)


# --- secrets -------------------------------------------------------------------------------------------------------


def _secrets(text: str, code: tuple[Piece, ...], header: Header) -> Iterator[Problem]:
    """The message never repeats the secret."""
    fix = "Keep it in a file of mode 0600 that the program reads, and replace the one that was shown."
    lower = text.lower()
    if not any(word in lower for word in _BESIDE_SECRETS):
        return
    reported: set[int] = set()
    for number, line in enumerate(text.split("\n"), start=1) if _TOKEN.search(text) else ():
        if _TOKEN.search(line):
            reported.add(number)
            yield Problem("W301", "an access token stands in the text.", fix, line=number, key="token")
    for option in header.options:
        is_public = option.name in {"export", "comment", "wrap"}
        if is_public and _SET_SECRET.search(option.value or "") and option.line not in reported:
            why = f"--{option.name} shows a secret to everyone on the cluster."
            yield Problem("W301", why, fix, line=option.line, key="secret")
    for piece in code:
        why = _secret_in(piece.text)
        if why and piece.line not in reported:
            yield Problem("W301", why, fix, line=piece.line, key="secret")


def _secret_in(command: str) -> str:
    if _URL_SECRET.search(command):
        return "a password or token in a URL: process lists and error messages show it."
    if _FLAG_SECRET.search(command) or _HEADER_SECRET.search(command) or _LOGIN_SECRET.search(command):
        return "a password or token on a command line: process lists show it."
    if _SET_SECRET.search(command):
        return "a secret stands in the text: whoever may read the script has it."
    return ""


# --- itself --------------------------------------------------------------------------------------------------------


_AGAIN = re.compile(r"(?:\S*/)?cronhpc\s+(?:-\S+\s+)*again\b")
_REQUEUES = re.compile(r"\bscontrol\s+requeue\s+[\"']?\$\{?SLURM_(?:ARRAY_)?JOB_?ID\b")


def _submits_itself(code: tuple[Piece, ...], header: Header, *, scheduled: bool) -> Iterator[Problem]:
    for submission in self_submissions(code, header.default_name):
        if submission.by_copy:
            what = '"sbatch $0": submits itself, and that from a copy: inside a job $0 is in the node\'s spool folder.'
        else:
            what = f"submits itself ({header.default_name}): with the schedule that makes two chains of it."
        again = 'For work that goes on by itself use "' + model.command("again") + '".'
        fix = "Remove it: the schedule starts it again. " + again
        yield Problem("W302", what, fix, line=submission.line, key="sbatch")
    for piece in code:
        what = _why_endless(piece.text, scheduled=scheduled)
        if what:
            yield Problem("W302", what, "Remove it: the schedule starts it again.", line=piece.line, key="again")


def _why_endless(text: str, *, scheduled: bool) -> str:
    """Why a command keeps a run going beside its schedule; "" where it does not."""
    if _REQUEUES.search(text) and re.match(r"trap\b.*\b(?:EXIT|0)\s*$", text):
        return "requeues itself whenever it ends, also when all went well: one run without an end."
    for _, command in commands(text) if scheduled and "again" in text else ():
        if _AGAIN.match(bare(command)):
            again = model.command("again")
            return f'"{again}" queues a next piece, and so does the schedule: each slot starts one more series.'
    return ""


def _own_folder(code: tuple[Piece, ...], reported: set[int], dialect: Dialect) -> Iterator[Problem]:
    if any("Command=" in piece.text for piece in code):  # it asks the queue for its own path
        return
    for piece in code:
        if piece.line not in reported and _SELF_FOLDER.search(piece.text):
            what = "the script looks for its own folder by $0, which inside a job is a copy in the node's spool folder."
            yield Problem("W307", what, f"Write the folder's path{_chdir(dialect)}.", line=piece.line, key="$0")
            return


# --- where and how it runs -----------------------------------------------------------------------------------------


def _chdir(dialect: Dialect) -> str:
    """The other way to a folder, where its batch system has that option."""
    line = directive(dialect, "chdir", "/PATH")
    return f", or {line}" if line else ""


def _relative_cd(code: tuple[Piece, ...], header: Header, dialect: Dialect) -> Iterator[Problem]:
    fixed = (header.value("chdir") or "").startswith("/")
    for piece in code:
        for _, command in commands(piece.text):
            match = re.match(r"(?:cd|pushd)\s+(?:-[LPe@-]+\s+)*[\"']?([^\s\"']+)", bare(command))
            if not match:
                continue
            if fixed or match[1][0] in "/~$-`" or re.fullmatch(r"\./?", match[1]):
                return
            what = f'"cd {match[1]}": relative, and a run starts in your home folder.'
            yield Problem("W303", what, f"Write the whole path{_chdir(dialect)}.", line=piece.line, key="cd")
            return


_SUBMITTED_FROM = re.compile(r"SLURM_SUBMIT_DIR|SGE_O_WORKDIR|PBS_O_WORKDIR|LS_SUBCWD")


def _submit_folder(code: tuple[Piece, ...], dialect: Dialect) -> Iterator[Problem]:
    for piece in code:
        named = _SUBMITTED_FROM.search(piece.text)
        if named and not _SAYS.match(piece.text):
            what = f"${named[0]}: runs are submitted from your home folder, so that is where it leads."
            yield Problem("W303", what, f"Write the whole path{_chdir(dialect)}.", line=piece.line, key="cd")
            return


_USUAL_LOG = re.compile(r"slurm-[\"']?\$\{?SLURM_(?:ARRAY_)?JOB_?ID\b")


def _log_by_name(code: tuple[Piece, ...], header: Header, dialect: Dialect) -> Iterator[Problem]:
    output = header.value("output") or ""
    if re.search(r"slurm-%[jA]", output) and output.startswith("/"):
        return
    for piece in code:
        if _USUAL_LOG.search(piece.text):
            what = "looks for slurm-JOBID.out: the log of a run is log/NAME/SLOT-JOBID.out in the cron directory."
            logs = model.command("logs", "NAME")
            line = directive(dialect, "output", "/PATH/slurm-%j.out")
            fix = "Leave it there (" + logs + (f"), or name one: {line}" if line else ").")
            yield Problem("W309", what, fix, line=piece.line, key="log")
            return


_SOURCES = re.compile(r"(?:^|[\s;&({])(?:source|\.)\s+(?!activate\b|\S*/activate\b)\S")


def _modules(code: tuple[Piece, ...], by: Interpreter, is_function: Callable[[str], bool] | None) -> Iterator[Problem]:
    if by.login:
        return
    for piece in code:
        if _SETS_UP.search(piece.text) or _SOURCES.search(mask(piece.text)):
            return
        for _, command in commands(piece.text):
            words = bare(command)
            match = re.match(
                r"(?P<module>module|ml)\s+[\w/-]|(?P<tool>(?P<own>conda|mamba)|source|\.)\s+activate(?:\s|$)", words
            )
            if match and is_function and is_function(match["module"] or match["own"] or ""):
                continue
            if match:
                key = match["module"] or "conda activate"
                who = match["module"] or match["own"] or "conda's activate"
                what = f'"{words.splitlines()[0][:60]}": {who} is set up by a login shell, and this is none.'
                fix = 'Make the first line "#!/bin/bash -l".'
                yield Problem("W304", what, fix, line=piece.line, key=key)
                return


_SAYS = re.compile(r"(?:echo|printf)\b")  # what is only printed does no harm


_CHANGED = re.compile(rf"[{QUOTES}{BLANKS}{UNSEEN}]|(?<=\s)[{DASHES}]+\w")


def _word_processed(code: tuple[Piece, ...]) -> Iterator[Problem]:
    """Characters that a word processor put for plain ones, outside of quotes: the shell takes them as letters."""
    for piece in code:
        if _SAYS.match(piece.text):
            continue
        match = _CHANGED.search(mask(piece.text))
        if match:
            kind = changed(match[0])
            what = f"a word processor has changed its {kind}: the shell takes them for letters."
            line = piece.line + piece.text.count("\n", 0, match.start())
            yield Problem("W225", what, f"Type the {kind} of this line again.", line=line, key="characters")
            return


# --- signals before the end ----------------------------------------------------------------------------------------

_LAUNCHERS = re.compile(r"\b(?:srun|mpi(?:run|exec)\S*|orterun|prte?run|ibrun|aprun|jsrun)\b")


def _signals(code: tuple[Piece, ...], header: Header) -> Iterator[Problem]:
    """`--signal` that reaches nobody who listens. Only steps get it, or with `B:` only the shell of the script."""
    option = header.find("signal")
    value = (option.value if option else None) or ""
    if option is None or not code or fault("signal", value):
        return
    flags, _, rest = value.rpartition(":")
    name, _, seconds = rest.upper().removeprefix("SIG").partition("@")
    traps = [p for p in code if re.search(rf"(?:^|[\s;{{(&])trap\s.*\b(?:SIG)?{re.escape(name)}\b", p.text, re.DOTALL)]
    waits = any(re.search(r"\bwait\b", p.text) for p in code)
    elsewhere = any(re.search(r"\bexec\s", p.text) or _SOURCES.search(mask(p.text)) for p in code)
    launches = any(_LAUNCHERS.search(p.text) for p in code)
    early = int(seconds or 60)
    try:
        limit = time_limit(header.value("time") or "UNLIMITED")
    except ValueError:
        limit = None
    written = f'"#SBATCH {option.written}"'
    guard = model.command("guard", options=("--warn-before-end", "DURATION", "--", "COMMAND"))
    if limit and early >= limit:
        what = f"{written}: {early} s before the end is before the start of a job of {limit} s."
        fix = "Write fewer seconds, or a longer --time."
    elif "B" not in flags.upper() and not launches:
        what = f"{written}: without B: only job steps get the signal, and nothing here starts one with srun."
        fix = f"Start the work with srun, or: {guard}" if not traps else f"Write --signal=B:{value}, or: {guard}"
    elif "B" in flags.upper() and traps and not waits:
        what = f"{written}: the shell runs its trap only when the command in the foreground has ended."
        fix = f"Put the work in the background: COMMAND & wait; or: {guard}"
    elif "B" in flags.upper() and not traps and not elsewhere and name not in {"CONT", "CHLD", "CLD", "URG", "WINCH"}:
        what = f"{written}: the script has no trap for {name}, so the signal ends it."
        fix = f"Add a trap, COMMAND & and wait; or: {guard}"
    else:
        return
    yield Problem("W227", what, fix, line=option.line, key="signal")


def _lost_exit_code(code: tuple[Piece, ...], by: Interpreter) -> Iterator[Problem]:
    if not code:
        return
    last = code[-1]
    if len(code) > 1 and re.fullmatch(r"exit(?:\s+[\"']?\$\?[\"']?)?", last.text):
        last = code[-2]
    stages: list[str] = []
    for before, command in commands(last.text):
        stages = [*stages, command] if before.startswith("|") and before != "||" else [command]
    names = [(bare(stage).split() or [""])[0] for stage in stages]
    if len(stages) < 2 or names[-1] in _SINKS or all(name in _HARMLESS for name in names[:-1]):  # noqa: PLR2004 - a pipe
        return
    if any("pipefail" in p.text or "PIPESTATUS" in p.text or "pipestatus" in p.text for p in code):
        return
    what = f"the last command is a pipe into {names[-1]}: the job counts as fine even when what feeds it fails."
    fix = 'Put "set -o pipefail" above it' + (', and "#!/bin/bash" first.' if by.name in {"sh", "dash"} else ".")
    yield Problem("W305", what, fix, line=last.line, key="pipe")


def _left_in_background(code: tuple[Piece, ...]) -> Iterator[Problem]:
    """Its last command, or the last one of a loop that ends it, and nothing anywhere that waits."""
    last = next((piece for piece in reversed(code) if piece.text not in {"done", "fi", "}"}), None)
    if last is None or not re.search(r"(?<![&|<>\\])&\s*(?:done\s*)?$", mask(last.text)):
        return
    if not any(re.search(r"\b(?:wait|fg|parallel)\b", piece.text) for piece in code):
        what = "what it starts in the background (&) is ended as soon as the script ends, and counts as fine."
        yield Problem("W308", what, 'Put "wait" below it, or take the & out.', line=last.line, key="&")


# --- watchers ------------------------------------------------------------------------------------------------------


def _watches_itself(code: tuple[Piece, ...], header: Header) -> Iterator[Problem]:
    if not any(_SQUEUE.search(piece.text) for piece in code):
        return
    names = {header.job_name, header.job_name.removesuffix(".slurm")} - {""}
    variables = {"SLURM_JOB_NAME": header.job_name}
    excluded = any(_OWN_ID.search(p.text) and re.search(r"\bgrep\b.*-\w*v|!=|!~", p.text) for p in code)
    excluded = excluded or any(re.search(r"-gt\s+1\b|-ge\s+2\b|>\s*1\b", p.text) for p in code)
    for piece in code:
        assigned = _ASSIGNED.match(piece.text)
        if assigned:
            variables[assigned[1]] = assigned[2].strip("\"'")
        if excluded or not _SQUEUE.search(piece.text):
            continue
        name = _name_looked_for(piece.text, names, variables)
        if name:
            what = f'looks for jobs named "{name}", and its own job is named {header.job_name}: it always finds itself.'
            fix = "Give it another --job-name, or leave out $SLURM_JOB_ID."
            yield Problem("W306", what, fix, line=piece.line, key="squeue")


def _name_looked_for(text: str, names: set[str], variables: dict[str, str]) -> str:
    """The name or pattern by which a squeue line finds one of `names`, or "" where it finds none."""
    inner = re.sub(r"\$\(|[()`]", " ; ", text)
    looking = False
    for before, command in commands(inner):
        words = bare(command)
        looking = bool(_SQUEUE.search(words)) or (looking and before.startswith("|"))
        for match in _BY_NAME.finditer(words) if _SQUEUE.search(words) else ():
            value = _expand(match[1], variables)
            if names & set(value.split(",")):
                return value
        grep = _GREP.match(words) if looking else None
        if grep and "v" not in grep["flags"]:
            pattern = _expand(grep["pattern"], variables)
            if pattern and _finds(pattern, grep["flags"], names):
                return pattern
    return ""


def _expand(word: str, variables: dict[str, str]) -> str:
    plain = word.strip("\"'")
    return VARIABLE.sub(lambda m: variables.get(m[1], m[0]), plain)


def _finds(pattern: str, flags: str, names: set[str]) -> bool:
    if "$" in pattern.rstrip("$") or "x" in flags:
        return pattern in names
    try:
        compiled = re.compile(pattern, re.IGNORECASE if "i" in flags else 0)
    except re.error:
        return any(pattern in name for name in names)
    return any(compiled.search(name) for name in names) and bool(re.search(r"\w{2}", pattern))
