"""Every code that `check` may give a script, with why it matters and what to do; docs/generate has those of files.

A complaint itself says more: the line, the word, and the very fix. Codes that begin with E are errors (what they
concern does not run, or does not do what it says), those with W warnings.
"""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    """What is wrong and why that matters; what to do."""

    what: str
    fix: str


_OPTION = "Write it as the batch system's manual has it; the complaint names the nearest."
_TO_TOP = "Remove what stands before `#!/bin/bash`."

# What `check` says of a script; `# cronhpc: ignore=CODE` silences these.
OF_SCRIPTS = {
    "W004": Code("an ignore comment names a code that does not exist", "Write one of this table."),
    "E101": Code("the schedule cannot be read, or never fires", "Correct it; try: `cronhpc next --schedule CRON`."),
    "E102": Code("there is no such policy", "Write one of the table of policies."),
    "E103": Code("a policy's value cannot be", "Write one of the values in the table of policies."),
    "E104": Code("a second `#CRON` line: a script has one schedule", "Remove one, or link the script again."),
    "E105": Code(
        "`#SCRON` is scrontab's word: it means nothing here", "Write `#CRON`, or the batch system's word for options."
    ),
    "E106": Code("the `#CRON` line cannot be read", "Put quotes and blanks right: `#CRON 0 4 * * * --retries=2`."),
    "E107": Code("no schedule: it never runs", "Add a `#CRON` line, or move it to cron.daily/."),
    "W101": Code("prose that begins with `#CRON`: it is not read", "Put a blank after the `#`."),
    "W102": Code("a `#CRON` line that is not read, for its place or spelling", "Put it beside the directives."),
    "W104": Code(
        "a step longer than its field or range: `*/90` fires each hour", "Write `@every 90m`, or the value alone."
    ),
    "E201": Code("an option that the batch system does not have: it refuses the script", _OPTION),
    "E202": Code("an ambiguous abbreviation of an option", "Write it in full."),
    "E203": Code("an option without its value: sbatch takes the next word for it", "Write `--NAME=VALUE`."),
    "E204": Code("an option that takes no value has one", "Write `--NAME` alone."),
    "E205": Code("a word where sbatch expects an option", "Quote a value that holds blanks; no blanks around `=`."),
    "E206": Code("a quote is not closed", "Close it on its line."),
    "E207": Code("a value that the batch system refuses", "Correct it as the complaint says."),
    "E208": Code("`--mem`, `--mem-per-cpu` and `--mem-per-gpu` exclude each other", "Keep one."),
    "E209": Code("a `#PBS` or `#BSUB` line that sbatch obeys and cannot read", "Remove it, or say `--ignore-pbs`."),
    "E221": Code("the first line does not begin with `#!`: it is refused", "Begin with `#!/bin/bash`."),
    "E222": Code("a byte order mark before `#!`: it is refused", "Save it as UTF-8 without one."),
    "E223": Code("a blank line before `#!`: it is refused", _TO_TOP),
    "E224": Code("Windows line ends: they are refused", "`sed -i 's/\\r$//' FILE`"),
    "E225": Code("a NUL byte: it is refused", "Remove it, or move the file out."),
    "E226": Code("nothing in it: it is refused", "Write the script, or remove the file."),
    "E227": Code("a partition that the cluster does not have", "Write one that `sinfo -s` shows."),
    "E228": Code("sbatch would refuse it", "Correct the `#SBATCH` lines, or `sbatch:` in cronhpc.yaml."),
    "W229": Code("the cluster gave no answer", "Try again later, or with `--offline`."),
    "W210": Code("a variable or `~` in a directive: sbatch does not expand it", "Use `%x`, `%j`, or a fixed path."),
    "W211": Code("a directive after the first command, or in a text: it is not read", "Move it up."),
    "W212": Code(
        "a misspelt or indented directive: a comment to the batch system", "In capitals, at the beginning of its line."
    ),
    "W215": Code("the folder of the output does not exist: no log, and the job fails", "Make it."),
    "W216": Code("the working folder does not exist: no run is submitted", "Name one that all nodes see."),
    "W217": Code("a `#PBS` or `#BSUB` line wins over `#SBATCH`", "Remove one, or say `--ignore-pbs`."),
    "W218": Code("a hold (`--hold`): each run waits until someone releases it", "Remove it, or release each."),
    "W219": Code("`--test-only`: nothing is submitted", "Remove it."),
    "W220": Code("an option given twice: the last one counts", "Remove one."),
    "W221": Code("a time to begin (`--begin`): each run waits beyond its slot", "Remove it: the schedule says when."),
    "W222": Code("a mail type that sbatch ignores", "Write the one that the complaint names."),
    "W223": Code("one dash before a long option: sbatch reads another one", "Write two dashes."),
    "W224": Code("sbatch reads a directive only up to a `#`, or up to its line's end", "Quote it; a directive a line."),
    "W225": Code("characters of a word processor: curly quotes, odd blanks, dashes", "Type them again."),
    "W226": Code("`--dependency` on one fixed job: later runs wait for what is gone", "Remove it."),
    "W227": Code(
        "the `--signal` before the end reaches nobody who listens", "`B:`, a trap and `COMMAND & wait`, or `guard`."
    ),
    "E230": Code("its shell cannot read the script, or marks of a merge stand in it", "`bash -n FILE` tells where."),
    "W231": Code(
        "more than its partition gives to a job: refused, or it waits for ever", "Ask for less, or elsewhere."
    ),
    "W232": Code("this machine does not have the interpreter of its first line", "Write one that the nodes have."),
    "W233": Code(
        "a line for another batch system, which this one does not read", "Write the line that the complaint names."
    ),
    "W234": Code("an option that only some kinds of the batch system have", "Remove it, unless yours has it."),
    "W301": Code("a secret on a command line or in the text: others can read it", "Keep it in a file of mode 0600."),
    "W302": Code(
        "the script submits or requeues itself, beside its schedule", "Remove that: the schedule starts it again."
    ),
    "W303": Code(
        "a relative cd, or to where it was submitted: runs start in the home folder",
        "Write the whole path, or the line that the complaint names.",
    ),
    "W304": Code("module or conda without a login shell: not found in a job", "Begin with `#!/bin/bash -l`."),
    "W305": Code("the exit code is lost in a pipe: a failure counts as fine", "Put `set -o pipefail` above it."),
    "W306": Code("a watcher that sees its own job, so always finds one", "Give it another `--job-name`."),
    "W307": Code("`$0` is a spooled copy inside a job, not the script's folder", "Write the path."),
    "W308": Code("its end leaves something in the background, which is ended then", "Put `wait` below it."),
    "W309": Code(
        "it looks for slurm-JOBID.out: logs of runs have other names", "`cronhpc logs NAME`, or name an `--output`."
    ),
}

# Codes of former versions: a comment that ignores one of them is no mistake.
RETIRED = frozenset({"W001", "W002", "W003", "W103", "W213", "W214"})
