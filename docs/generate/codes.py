"""The codes of complaints: what they mean and what to do, for the reference."""

from __future__ import annotations

from typing import NamedTuple

# A complaint itself says more: the line, the word, and the very fix. Codes that begin with E are errors (what they
# concern does not run, or does not do what it says), those with W warnings.


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

# What is said of the cron directory, by `check`, `status`, `plan` and `tick`.
OF_FILES = {
    "W001": Code("not a .slurm file, though it was meant to be one: it does not run", "The complaint's `mv`."),
    "W003": Code("a hidden file: it does not run", "The complaint's `mv`, if it shall run."),
    "W005": Code("a link to nothing: it is skipped", "Remove it, or bring back its target."),
    "W006": Code("neither a file nor a link to one: it is skipped", "Remove it."),
    "W007": Code("a folder in a cron folder: it is not looked into", "Put the script itself there."),
    "W010": Code("a script, or a folder with scripts, in a place that is no cron folder: it never runs", "The `mv`."),
    "N001": Code("other files in a cron folder (logs, backups, folders): they are let alone", "Nothing."),
    "N002": Code(
        "a relative output: logs are `log/NAME/SLOT-JOB.out` instead",
        "To keep it, write a whole path, or one for the working folder.",
    ),
    "W009": Code("a file that cannot be looked at: it is skipped", "Make it readable, or mount what it lies on."),
    "E301": Code("a second entry of a name: it does not run", "Rename one of them."),
    "E302": Code("an entry called ALL, or as a job's number: no switch can mean it alone", "Rename it."),
    "E310": Code("a cron folder cannot be read: its entries wait", "`chmod u+rx FOLDER`"),
    "E311": Code("an entry's file was not seen just now: it is looked for again", "Nothing, unless it stays."),
    "E312": Code("a script cannot be read: it stays due", "`chmod u+r FILE`, or correct the path."),
    "E313": Code("a script that cronhpc itself fails to understand: it alone waits", "Report it with the script."),
    "E320": Code(
        "a folder of switches cannot be listed, or is not the one meant: nothing is submitted", "Correct kill.also."
    ),
    "E330": Code(
        "state/, or another folder that ticks write in, cannot be written: nothing submitted is forgotten",
        "Make room, fix the quota, or its permissions.",
    ),
    "E331": Code("the disk is full: nothing can be submitted or recorded", "Make room, or fix the quota."),
    "W332": Code("state/entries.json was cut off: results, streaks and suspensions are forgotten", "Nothing."),
    "W333": Code("the environment that runs get was cut off, or is of no use: they get the tick's", "`cronhpc start`"),
    "W334": Code("state/ is older than the newest tick: it was brought back from a copy", "Look at: `cronhpc plan`."),
    "W335": Code("state/entries.json held what no tick writes: that part is forgotten", "Nothing: no slot runs twice."),
    "W336": Code("how ticks are driven (scheduler/started) was cut off, or is of no use in part", "`cronhpc start`"),
    "W337": Code("a claim is damaged: it counts as claimed, and is not submitted again", "Look into the run's log."),
    "W338": Code("what is called state/lease is no lease: ticks do not see each other", "Remove it."),
    "W339": Code("a lease older than a tick takes: ticks go on beside it", "Remove it, if its holder has ended."),
    "W340": Code("the record of a series is of another version", "Start its script again."),
    "W341": Code("the record of a series was cut off", "Start its script again, then remove the file."),
    "E361": Code("jobs may not submit on a node: the scheduler has no successor", "`cronhpc start --via login`"),
    "W342": Code(
        "this site drops a job's hold: runs begin before cronhpc has written them down", "Ask its administrators."
    ),
    "W360": Code(
        "this machine's clock is far off: the batch system's, or the file system's, is used", "Tell the administrators."
    ),
    "W343": Code("this site drops when a job is to begin: cronhpc sets it once more", "Ask its administrators."),
    "W361": Code("a node on which the scheduler's jobs cannot work: they avoid it", "Tell the administrators."),
    "W366": Code("a job of the scheduler hangs in its start: another takes its place", "`qdel -f` on Grid Engine."),
    "W367": Code("the daemon was begun by another version of cronhpc, and goes on with that", "Restart it."),
    "W362": Code("the clock that dates files is not this machine's: ages count by it", "Tell the administrators."),
    "W365": Code("a hand-made scheduler is still in the queue: scripts run twice", "`cronhpc init --cancel-old`"),
    "E363": Code("the scheduler runs on another cluster: nothing is done here", "A directory of its own for each."),
    "W364": Code("the machines' time zones differ: slots shift", "Write `timezone:` into cronhpc.yaml."),
    "W352": Code("alerts could not be sent as the settings have it", "Correct `alerts:`; `cronhpc doctor --alerts`."),
    "N003": Code(
        "what sbatch thinks of a script is not known: it takes longer than a second, or gives no clear answer",
        "`cronhpc check --online`",
    ),
    "N004": Code(
        "cronhpc.yaml cannot be used, and nothing else tells the batch system: scripts are judged as Slurm's",
        "Correct the settings, or `cronhpc check --backend pbs`, say",
    ),
    "W350": Code("an alert could not be sent: the next tick tries again", "`cronhpc doctor --alerts`"),
    "W351": Code("a ping failed, or will; its run is not touched by that", "Correct the address."),
    "W370": Code("the page was not written", "Fix `page:` in cronhpc.yaml."),
    "W371": Code("the page needs a package that is missing", "Install cronhpc again."),
    "W372": Code("the page's place is not safe: others could put a folder there", "The complaint's `chmod`."),
    "E401": Code("a script, or the way to it, cannot be looked at: it is not trusted", "Fix the link or the modes."),
    "E402": Code("no regular file: it is not trusted", "Put a batch script there."),
    "E403": Code("it belongs to someone else: it is not trusted", "Copy it, or list them under trust.owners."),
    "E404": Code("others can write it or a folder of its path: it is not trusted", "The complaint's `chmod`."),
    "W410": Code("trust.owners names a user that does not exist", "Correct trust.owners."),
    "W501": Code("an editor's backup in a folder of switches: no switch", "Remove it, or rename it."),
    "W502": Code("a switch is dated in the future", "`touch` it, or fix the clock that made it."),
    "W503": Code("`expires:` cannot be read: the switch stands until removed", "Write `expires: 2h`, or a time."),
    "W504": Code("a switch names nothing that is there", "Correct its name, or remove it."),
    "E600": Code("cronhpc.yaml is missing or cannot be read", "`cronhpc init`, or `chmod u+r` it."),
    "W600": Code("cronhpc.yaml is empty: every setting has its default", "Bring it back, or write a comment in it."),
    "E601": Code("cronhpc.yaml is no YAML", "Correct the line named."),
    "E602": Code("an unknown key, or option of a job", "Write the nearest one, which the complaint names."),
    "E603": Code("a value that a setting cannot have", "Write one of its kind; see the settings."),
    "E604": Code("a key stands twice", "Keep one."),
    "E605": Code("a row lacks a part, or has one too many", "Add `schedule:` and one of `command:`, `script:`."),
    "E610": Code("log/ belongs to someone else: nothing is removed", "Its owner can: `cronhpc clean`."),
    "E611": Code("no cron directory: nothing is removed", "`cronhpc init --dir DIR`"),
    "E612": Code("others can write the cron directory: nothing is removed", "The complaint's `chmod`."),
    "E613": Code("a folder of logs is a link: nothing is removed through it", "Put a real folder there."),
    "E614": Code("a folder of logs cannot be opened: nothing in it is removed", "Mount it, or fix its modes."),
    "E615": Code("logs.extra names a home folder, / or the cron directory's own", "Name one that holds only logs."),
    "E616": Code("others can change the way to a folder of logs.extra", "The complaint's `chmod`."),
    "E617": Code("a folder of logs.extra belongs to someone else", "Name folders of your own."),
    "W610": Code("the batch system is silent, so no log is removed", "Nothing: the next tick tries again."),
    "W611": Code("a folder in log/ belongs to someone else: it is left", "Remove it, or move it elsewhere."),
    "W612": Code("a folder in log/ is another file system: it is left", "Name it under logs.extra."),
    "W613": Code("links in a folder of logs: they are left", "Remove them if they are not yours."),
    "W614": Code("folders in a folder of logs: they are left", "What is in them is yours to clean."),
    "W615": Code("a log cannot be removed", "Look at its owner and at the folder's modes."),
    "W616": Code("what is known of logs cannot be kept: each tick looks at all", "Fix what the complaint names."),
    "W617": Code(
        "this machine's clock is ahead of the file system's: no log is removed",
        "Tell the administrators: it wants ntp.",
    ),
}
