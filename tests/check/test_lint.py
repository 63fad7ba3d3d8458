"""What `cronhpc check` says, and of ordinary good scripts does not say."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cronhpc.check.lint import CODES, lint_script
from cronhpc.check.lint_directives import Facts, Unreadable
from cronhpc.core.model import Problem
from cronhpc.core.model.site import Partition
from cronhpc.script.dialect import GRID_ENGINE, LOCAL, LSF, PBS, SLURM, Dialect
from cronhpc.views.reports import check as render
from cronhpc.views.reports import check_facts, summary

TOP = "#!/bin/bash\n"
FACTS = Facts(
    partitions={name: Partition(name) for name in ("cpu", "gpu-long")},
    is_folder=lambda path: path not in {"/gone", "/gone/log"},
)


def lint(
    text: str | bytes, path: str = "cron.daily/backup.slurm", schedule: str | None = "30 4 * * *"
) -> list[Problem]:
    data = text if isinstance(text, bytes) else text.encode()
    return list(lint_script(path, data, folder_schedule=schedule, facts=FACTS))


# --- one situation, one code --------------------------------------------------------------------------------------

# name: (script below the first line, the code, its line, what the fix says)
SITUATIONS: dict[str, tuple[str, str, int, str]] = {
    "a schedule that cron does not know": ("#CRON 0/15 * * * *\n", "E101", 2, "*/15"),
    "a schedule that never fires": ("#CRON 0 4 30 2 *\n", "E101", 2, ""),
    "a range that runs backwards": ("#CRON 0 22-4 * * *\n", "E101", 2, "22-23,0-4"),
    "@reboot": ("#CRON @reboot\n", "E101", 2, ""),
    "daily without @": ("#CRON daily\n", "E101", 2, "@daily"),
    "an unknown policy": ("#CRON @daily --retrys=2\n", "E102", 2, "--retries"),
    "a bad value": ("#CRON @daily --overlap=forbid\n", "E103", 2, "skip, allow"),
    "an unknown time zone": ("#CRON @daily --timezone=Europe/Pris\n", "E103", 2, "Europe/Paris"),
    "two #CRON lines": ("#CRON @daily\n#CRON @hourly\n", "E104", 3, "line 2"),
    "#SCRON": ("#SCRON */5 * * * *\n", "E105", 2, "#CRON */5 * * * *"),
    "a policy with one dash": ("#CRON @daily -retries=2\n", "E106", 2, "--retries=2"),
    "prose after #CRON": ("#CRON jobs of the group\n", "W101", 2, "blank after the #"),
    "#cron in small letters": ("#cron 0 4 * * *\n", "W102", 2, "#CRON 0 4 * * *"),
    "#CRON indented": ("  #CRON @hourly\n", "W102", 2, "#CRON @hourly"),
    "#CRON after the first command": ("echo\n#CRON @hourly\n", "W102", 3, "Move it up"),
    "a step longer than its field": ("#CRON */90 * * * *\n", "W104", 2, "@every 90m"),
    "a step longer than the day": ("#CRON 0 */36 * * *\n", "W104", 2, "@every 36h"),
    "a step as long as its field": ("#CRON */60 * * * *\n", "W104", 2, "write 0"),
    "a step longer than its range": ("#CRON 1-59/90 * * * *\n", "W104", 2, "@every 90m; else write 1."),
    "a step longer than the hours of a day's part": (
        "#CRON 0 8-18/12 * * *\n",
        "W104",
        2,
        "at most 10; if that is meant, write 8.",
    ),
    "a step longer than a range of names": (
        "#CRON 0 4 * * mon-fri/5\n",
        "W104",
        2,
        "at most 4; if that is meant, write 1.",
    ),
    "a step longer than its range, in a list": ("#CRON 5,10-20/15 * * * *\n", "W104", 2, "write 10."),
    "a step of a hashed field that leads out of it": ("#CRON H/90 * * * *\n", "W104", 2, "@every 90m; else write H."),
    "a step of a hashed range that leads out of it": ("#CRON H(0-29)/30 * * * *\n", "W104", 2, "write H(0-29)."),
    "an offset for a time zone": ("#CRON @daily --timezone=UTC+3\n", "E103", 2, "Etc/GMT-3 for 3 hours ahead of UTC"),
    "a zone behind the fields": ("#CRON 0 2 * * * UTC --retries=1\n", "E101", 2, "--timezone=UTC"),
    "a zone in front of the fields": ("#CRON CRON_TZ=UTC 0 2 * * *\n", "E101", 2, "0 2 * * * --timezone=UTC"),
    "a schedule of systemd's": ("#CRON Mon..Fri *-*-* 10:00\n", "E101", 2, "0 10 * * mon-fri"),
    "a line of Grid Engine's": ("#$ -l h_rt=3600\n", "W233", 2, "Write '#SBATCH --time=1:00:00'."),
    "an unknown option": ("#SBATCH --job_name=x\n", "E201", 2, "--job-name"),
    "an ambiguous option": ("#SBATCH --ntasks-per=2\n", "E202", 2, "--ntasks-per-node"),
    "an option without its value": ("#SBATCH --partition\n", "E203", 2, "--partition=VALUE"),
    "a flag with a value": ("#SBATCH --contiguous=1\n", "E204", 2, "--contiguous"),
    "a stray word": ("#SBATCH --job-name my job\n", "E205", 2, "Quote"),
    "an unclosed quote": ('#SBATCH --comment="x\n', "E206", 2, "Close"),
    "a limit in hours": ("#SBATCH --time=90m\n", "E207", 2, "1:30:00"),
    "a limit that is none": ("#SBATCH --time=long\n", "E207", 2, "hours:minutes:seconds"),
    "a size with a point": ("#SBATCH --mem=1.5G\n", "E207", 2, "4G"),
    "a count in words": ("#SBATCH --ntasks=two\n", "E207", 2, "whole number"),
    "no CPU at all": ("#SBATCH -c 0\n", "E207", 2, "whole number"),
    "an array that is none": ("#SBATCH --array=a-b\n", "E207", 2, "0-15"),
    "an array that runs backwards": ("#SBATCH --array=5-1\n", "E207", 2, "0-15"),
    "more nodes at least than at most": ("#SBATCH -N 2-1\n", "E207", 2, "MIN-MAX"),
    "no most nodes": ("#SBATCH --nodes=1-\n", "E207", 2, "MIN-MAX"),
    "an array that does not move": ("#SBATCH -a 1-10:0\n", "E207", 2, "0-15"),
    "a word for yes": ("#SBATCH --kill-on-invalid-dep=true\n", "E207", 2, "yes or no"),
    "nodes by name": ("#SBATCH --nodes=cpu1\n", "E207", 2, "number"),
    "a mail type that is none": ("#SBATCH --mail-type=FAILED\n", "E207", 2, "FAIL"),
    "a mail type among others that is none": ("#SBATCH --mail-type=END,FAILED\n", "W222", 2, "FAIL"),
    "an open mode that is none": ("#SBATCH --open-mode=overwrite\n", "E207", 2, "append"),
    "a signal that is none": ("#SBATCH --signal=FOO@60\n", "E207", 2, "B:USR1@300"),
    "memory twice": ("#SBATCH --mem=4G\n#SBATCH --mem-per-cpu=1G\n", "E208", 3, "Keep one"),
    "a PBS line that sbatch refuses": ("#PBS -Z\n", "E209", 2, "--ignore-pbs"),
    "a PBS line without an option that can be read": ("#PBS -;N a\n", "E209", 2, "--ignore-pbs"),
    "an unknown partition": ("#SBATCH --partition=gpu_long\n", "E227", 2, "gpu-long"),
    "one unknown partition of two": ("#SBATCH -p cpu,zz\n", "E227", 2, "cpu, gpu-long"),
    "a variable in a path": ("#SBATCH --output=$RUN/out.txt\n", "W210", 2, "%x"),
    "a variable in braces": ("#SBATCH --job-name=x-${USER}\n", "W210", 2, "value itself"),
    "a command in a directive": ("#SBATCH --comment=`date`\n", "W210", 2, "value itself"),
    "a tilde": ("#SBATCH -D ~/work\n", "W210", 2, "fixed path"),
    "#SBATCH after the first command": ("echo\n#SBATCH --time=5\n#SBATCH -n 1\n", "W211", 3, "above line 2"),
    "#SBATCH after set -e": ("set -e\n\n#SBATCH --time=5\n", "W211", 4, "above line 2"),
    "#SbATCH": ("#SbATCH --time=5\n", "W212", 2, "#SBATCH --time=5"),
    "#sbatch": ("#sbatch -t 5\n", "W212", 2, "#SBATCH -t 5"),
    "#SBATCH indented": (" #SBATCH --time=5\n", "W212", 2, "Remove the blanks before it"),
    "#SBATCH behind a tab": ("\t#SBATCH --time=5\n", "W212", 2, "Remove the tab before it"),
    "#Sbatch without a blank": ("#Sbatch--time=5\n", "W212", 2, "#SBATCH--time=5"),
    "#SBTACH": ("#SBTACH --time=5\n", "W212", 2, "#SBATCH --time=5"),
    "a missing log folder": ("#SBATCH --output=/gone/log/%x-%j.out\n", "W215", 2, "mkdir -p /gone/log"),
    "a missing folder before a pattern": ("#SBATCH -e /gone/%u/%j.err\n", "W215", 2, "mkdir -p /gone"),
    "a missing working folder": ("#SBATCH --chdir=/gone\n", "W216", 2, "nodes"),
    "PBS over SBATCH": ("#SBATCH -J a\n#PBS -N b\n", "W217", 3, "--ignore-pbs"),
    "--hold": ("#SBATCH --hold\n", "W218", 2, "scontrol release"),
    "--test-only": ("#SBATCH --test-only\n", "W219", 2, "Remove"),
    "one dash before memory": ("#SBATCH -mem=4G\n", "E207", 2, "Write --mem=4G"),
    "one dash before a time limit": ("#SBATCH -time=5\n", "E207", 2, "Write --time=5"),
    "one dash before a flag that is read as a partition": ("#SBATCH -spread-job\n", "E207", 2, "Write --spread-job"),
    "one dash before another name of an option": ("#SBATCH -tasks-per-node=2\n", "E207", 2, "Write --tasks-per-node=2"),
    "a variable in a value that sbatch refuses": ("#SBATCH --time=$LIMIT\n", "E207", 2, "value itself"),
    "a time that sbatch does not know": ("#SBATCH --deadline=tomorow\n", "E207", 2, "tomorrow"),
    "a signal too early for sbatch": ("#SBATCH --signal=B:USR1@100000\n", "E207", 2, "fewer"),
    "GPUs per task without tasks": ("#SBATCH --gpus-per-task=1\n", "E207", 2, "--ntasks"),
    "a least time over the limit": ("#SBATCH --time=5\n#SBATCH --time-min=10\n", "E207", 3, "smaller"),
    "CPUs per GPU and per task": ("#SBATCH -c 4\n#SBATCH --cpus-per-gpu=4\n", "E208", 3, "Keep one"),
    "a blank behind =": ("#SBATCH --nodes= 2\n", "E205", 2, "write --nodes=2"),
    "blanks around =": ("#SBATCH --nodes = 2\n", "E205", 2, "write --nodes=2"),
    "a blank before =": ("#SBATCH --nodes =2\n", "E207", 2, "write --nodes=2"),
    "a blank in a list": ("#SBATCH --mail-type=BEGIN, END\n", "E205", 2, "write --mail-type=BEGIN,END"),
    "a blank in a quoted list": ('#SBATCH --mail-type="BEGIN, END"\n', "W222", 2, "without blanks"),
    "types of mail without commas": ("#SBATCH --mail-type=BEGIN END\n", "E205", 2, "write --mail-type=BEGIN,END"),
    "types of mail with other marks": ("#SBATCH --mail-type=END;FAIL\n", "E207", 2, "Write END,FAIL"),
    "a type of mail by another word": ("#SBATCH --mail-type=done\n", "E207", 2, "Write END."),
    "a dash alone": ("#SBATCH - nodes=2\n", "E205", 2, "without a blank"),
    "a colon behind #SBATCH": ("#SBATCH: --mem=4G\n", "E205", 2, "no colon"),
    "one dash, and a blank before the value": ("#SBATCH -mem 4G\n", "E207", 2, "Write --mem=4G."),
    "another batch system's name of an option": ("#SBATCH --queue=x\n", "E201", 2, "--partition"),
    "two dashes alone, and much behind them": ("#SBATCH --\n#SBATCH -n 4\n#SBATCH --mem=4G\n", "E205", 3, '"--"'),
    "prose behind a value": ("#SBATCH --time=30 half an hour\n", "E205", 2, "put a # before"),
    "an option without dashes": ("#SBATCH time=5\n", "E205", 2, "Write --time=5"),
    "an option behind loose dashes": ("#SBATCH -- time=5\n", "E205", 2, "write --time=5"),
    "an unseen character behind the word": ("#SBATCH\u200b --time=5\n", "E205", 2, "unseen"),
    "a remark without a blank": ("#SBATCH --time=30#half an hour\n", "W224", 2, "blank before"),
    "directives between quotes": (": '\n#SBATCH --time=5\n'\ntrue\n", "W211", 3, "below #!"),
    "a size with a blank": ("#SBATCH --mem=4 GB\n", "E205", 2, "write --mem=4GB"),
    "a value with a blank": ("#SBATCH --comment=my own job\n", "E205", 2, '--comment="my own job"'),
    "curly quotes around one word": ("#SBATCH --mem=\u201c4G\u201d\n", "E207", 2, "write --mem=4G"),
    "curly quotes around words": ("#SBATCH --comment=\u201cmy job\u201d\n", "E205", 2, '--comment="my job"'),
    "curly quotes that sbatch takes": ("#SBATCH --comment=\u201cjob\u201d\n", "W225", 2, "--comment=job"),
    "an en dash in a range": ("#SBATCH --nodes=1\u20132\n", "E207", 2, "write --nodes=1-2"),
    "an en dash in an array": ("#SBATCH --array=0\u201315\n", "E207", 2, "write --array=0-15"),
    "a no-break space for a blank": ("#SBATCH\u00a0--time=5\n", "E205", 2, "write --time=5"),
    "a no-break space in a name": ("#SBATCH --job-name=a\u00a0b\n", "W225", 2, '--job-name="a b"'),
    "a zero-width space in a value": ("#SBATCH --partition=cpu\u200b\n", "W225", 2, "--partition=cpu"),
    "curly quotes in the body": ("D=/x\nrm -rf \u201c$D\u201d/*\n", "W225", 3, "quotes"),
    "an en dash for an option": ("echo\nls \u2013l /x\n", "W225", 3, "minus signs"),
    "a no-break space in the body": ("rm\u00a0-rf /x\n", "W225", 2, "blanks"),
    "a # in a name": ("#SBATCH --job-name=run#1\n", "W224", 2, '--job-name="run#1"'),
    "two directives on a line": ("#SBATCH --time=7 #SBATCH --nice=5\n", "W224", 2, "line of its own"),
    "a directive that goes on": ("#SBATCH --time=7 \\\n#        --nice=5\n", "W224", 2, "#SBATCH"),
    "a directive that goes on without a #": ("#SBATCH --time=7 \\\n  --nice=5\n", "W224", 2, "#SBATCH"),
    "directives in a here-document": (": <<'DOC'\n#SBATCH --time=5\n#SBATCH -n 1\nDOC\ntrue\n", "W211", 3, "below #!"),
    "waiting for one fixed job": ("#SBATCH --dependency=afterok:4711\n", "W226", 2, "Remove"),
    "a signal to steps where there are none": ("#SBATCH --signal=USR1@90\npython t.py\n", "W227", 2, "srun"),
    "a signal to steps, and a trap": (
        "#SBATCH --signal=USR1@90\ntrap save USR1\npython t.py & wait\n",
        "W227",
        2,
        "--signal=B:USR1@90",
    ),
    "a trap behind the foreground": (
        "#SBATCH --signal=B:USR1@60\ntrap 'touch x' USR1\npython t.py\n",
        "W227",
        2,
        "COMMAND & wait",
    ),
    "a signal before the start": (
        "#SBATCH -t 5\n#SBATCH --signal=B:USR1@600\ntrap save USR1\nx & wait\n",
        "W227",
        3,
        "fewer",
    ),
    "a signal without a trap": ("#SBATCH --signal=B:USR1@60\npython t.py & wait\n", "W227", 2, "Add a trap"),
    "one dash before an output": ("#SBATCH -output=/x/%j.out\n", "W223", 2, "Write --output=/x/%j.out"),
    "one dash before a flag": ("#SBATCH -exclusive\n", "W223", 2, "Write --exclusive"),
    "an option twice": ("#SBATCH -t 5\n#SBATCH --time=10\n", "W220", 3, "Remove one"),
    "--begin": ("#SBATCH --begin=now+8hours\n", "W221", 2, "schedule"),
    "a token in a URL": ("git pull https://me:$TOKEN@git.example/x.git\n", "W301", 2, "0600"),
    "a password on a command line": ("tool --password=hunter2\n", "W301", 2, "0600"),
    "a password from a variable": ('tool --password "$PW" run\n', "W301", 2, "0600"),
    "a token option": ("huggingface-cli login --token $HF_TOKEN\n", "W301", 2, "0600"),
    "an authorization header": ('curl -H "Authorization: Bearer $T" https://x\n', "W301", 2, "0600"),
    "curl with a password": ("curl -u me:pw https://x\n", "W301", 2, "0600"),
    "a known token": ("export X=hf_abcdefghijklmnopqrstuvwxyz0123\n", "W301", 2, "0600"),
    "a key as a word": ("wandb login 0123456789abcdef0123456789abcdef01234567\n", "W301", 2, "0600"),
    "a known token in a comment": ("# ghp_abcdefghijklmnopqrstuvwxyz0123\n", "W301", 2, "0600"),
    "a key in the text": ("export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567\n", "W301", 2, "0600"),
    "a secret in --export": ("#SBATCH --export=ALL,API_KEY=0123456789abcdef01\n", "W301", 2, "0600"),
    "sbatch $0": ("#SBATCH -t 5\nsbatch $0\n", "W302", 3, "cronhpc again"),
    "sbatch with options and $0": ('sbatch --begin=now+1hour "$0" a b\n', "W302", 2, "cronhpc again"),
    "sbatch and BASH_SOURCE": ('if true; then\n  sbatch "${BASH_SOURCE[0]}"\nfi\n', "W302", 3, "cronhpc again"),
    "sbatch of its own file": ("sbatch --begin=now+1day ~/cron/cron.daily/backup.slurm\n", "W302", 2, "cronhpc again"),
    "sbatch of its own path, asked from the queue": (
        "me=$(scontrol show job $SLURM_JOBID | awk -F= '/Command=/{print $2}')\nsbatch $me\n",
        "W302",
        3,
        "cronhpc again",
    ),
    "sbatch of its own real path": ("me=$(realpath x)/$0\nsbatch -t 5 $me\n", "W302", 3, "cronhpc again"),
    "sbatch of itself through ssh": (
        'ssh login "cd /x; sbatch --export=N=1 backup.slurm"\n',
        "W302",
        2,
        "cronhpc again",
    ),
    "itself by the job's name": ('sbatch "$SLURM_JOB_NAME"\n', "W302", 2, "schedule"),
    "itself by its real path": ('sbatch "$(realpath "$0")"\n', "W302", 2, "cronhpc again"),
    "requeued at each end": ("trap 'scontrol requeue $SLURM_JOB_ID' EXIT\ntrue\n", "W302", 2, "schedule"),
    "a series from a schedule": ("cronhpc again --in 1h\n", "W302", 2, "schedule"),
    "a series from a schedule, if all is well": ("work && ~/.local/bin/cronhpc again\n", "W302", 2, "schedule"),
    "to where it was submitted": ("cd $SLURM_SUBMIT_DIR\n", "W303", 2, "--chdir"),
    "to where it was submitted, in quotes": ('cd "${SLURM_SUBMIT_DIR}" || exit 1\n', "W303", 2, "--chdir"),
    "a file of where it was submitted": ("source $SLURM_SUBMIT_DIR/env.sh\n", "W303", 2, "--chdir"),
    "a log by sbatch's usual name": ("mv slurm-$SLURM_JOB_ID.out /x\n", "W309", 2, "cronhpc logs"),
    "a log by sbatch's usual name, in an array": (
        'gzip "slurm-${SLURM_ARRAY_JOB_ID}_1.out"\n',
        "W309",
        2,
        "cronhpc logs",
    ),
    "marks of a merge": ("<<<<<<< HEAD\na\n=======\nb\n>>>>>>> other\n", "E230", 2, "merge"),
    "a relative cd": ("cd data\n", "W303", 2, "--chdir"),
    "a relative cd in a list": ("true && cd ./data && ls\n", "W303", 2, "--chdir"),
    "cd to a parent": ("cd ..\n", "W303", 2, "--chdir"),
    "module without a login shell": ("module load cuda\n", "W304", 2, "bash -l"),
    "ml without a login shell": ("ml python/3.11\n", "W304", 2, "bash -l"),
    "conda without a login shell": ("conda activate base\n", "W304", 2, "bash -l"),
    "the exit code lost in a pipe": ("python train.py | tee log.txt\n", "W305", 2, "pipefail"),
    "a pipe over two lines": ("pg_dump db |\n  gzip > /x/db.gz\n", "W305", 2, "pipefail"),
    "a pipe with continued lines": ("rsync -a x y 2>&1 \\\n  | tail -1\n\n# done\n", "W305", 2, "pipefail"),
    "exit $? after a pipe": ("python train.py | tee log\nexit $?\n", "W305", 2, "pipefail"),
    "a loop into a pipe": ("for f in *; do\n  cat $f\ndone | tee log\n", "W305", 4, "pipefail"),
    "conda's activate without a login shell": ("source activate base\n", "W304", 2, "bash -l"),
    "a last command in the background": ("cd /x\nsrun -n 1 ./a &\nsrun -n 1 ./b & # both\n", "W308", 4, "wait"),
    "a loop of commands in the background": ("for i in 1 2; do\n  ./a $i &\ndone\n", "W308", 3, "wait"),
    "a watcher by its own name": ("#SBATCH -J train\nsqueue -h -u me -n train\n", "W306", 3, "SLURM_JOB_ID"),
    "a watcher by --name and a variable": (
        'N=backup\nif squeue -h --name="$N" >x; then\necho\nfi\n',
        "W306",
        3,
        "job-name",
    ),
    "a watcher by grep": ("#SBATCH -J train-watch\nsqueue --me | grep -q train\n", "W306", 3, "job-name"),
    "a watcher by its own variable": ("squeue -n $SLURM_JOB_NAME\n", "W306", 2, "job-name"),
    "a watcher in a substitution": ("#SBATCH -J tr\nn=$(squeue -h -o %j | grep -c '^tr$')\n", "W306", 3, "job-name"),
    "its own folder": ('cd "$(dirname "$0")"\n', "W307", 2, "--chdir"),
    "its own folder by BASH_SOURCE": ('HERE=$(cd $(dirname "${BASH_SOURCE[0]}") && pwd)\n', "W307", 2, "--chdir"),
    "its own folder by readlink": ("source $(readlink -f $0).conf\n", "W307", 2, "--chdir"),
    "its own folder by cutting": (". ${0%/*}/lib.sh\n", "W307", 2, "--chdir"),
    "an ignore comment without one": ("# cronhpc: ignore\ntrue\n", "W004", 2, "ignore=W303"),
    "an ignore comment without a code": ("true # cronhpc: ignore=all\n", "W004", 2, "ignore=W303"),
    "an ignore comment of no code": ("echo # cronhpc: ignore=W999\n", "W004", 2, "check"),
}


@pytest.mark.parametrize(("body", "code", "line", "fix"), SITUATIONS.values(), ids=SITUATIONS.keys())
def test_a_situation_gets_its_code_with_line_and_fix_and_no_other(body: str, code: str, line: int, fix: str) -> None:
    found = lint(TOP + body)
    assert [(p.code, p.line) for p in found] == [(code, line)]
    assert found[0].file == "cron.daily/backup.slurm"
    assert fix in found[0].fix
    assert found[0].what
    assert found[0].fix
    assert (found[0].severity == "error") is code.startswith("E")


# name: (the system that is here, script below the first line, code, line, what the fix says)
BESIDE_SLURM: dict[str, tuple[Dialect, str, str, int, str]] = {
    "Slurm's line on Grid Engine": (GRID_ENGINE, "#SBATCH --time=1:00:00\n", "W233", 2, "Write '#$ -l h_rt=3600'."),
    "Slurm's line on PBS": (PBS, "#SBATCH --mem=4G\n", "W233", 2, "Write '#PBS -l mem=4096mb'."),
    "Slurm's array on LSF": (LSF, "#SBATCH -J a -a 1-5\n", "W233", 2, "Write '#BSUB -J \"a[1-5]\"'."),
    "PBS's line on Grid Engine": (GRID_ENGINE, "#PBS -lwalltime=60:00 -N a\n", "W233", 2, "'#$ -N a -l h_rt=3600'"),
    "LSF's line on Slurm, which sbatch obeys and cannot read": (
        SLURM,
        "#BSUB -W 60 -H\n",
        "E209",
        2,
        "Write '#SBATCH --time=1:00:00 --hold'",
    ),
    "a line that has no counterpart": (LSF, "#SBATCH --signal=USR1\n", "W233", 2, "bsub has nothing of its own for --"),
    "an unknown option of Grid Engine's": (GRID_ENGINE, "#$ -hold_jd 7\n", "E201", 2, "-hold_jid"),
    "PBS below the first command": (PBS, "echo\n#PBS -N a\n", "W211", 3, "above line 2"),
    "PBS within a text": (PBS, ": <<'X'\n#PBS -N a\nX\n", "W211", 3, "below #!"),
    "PBS indented": (PBS, " #PBS -N a\n", "W212", 2, "blanks before it"),
    "PBS in small letters": (PBS, "#pbs -N a\n", "W212", 2, '"#PBS -N a"'),
    "a schedule below the first command": (LSF, "echo\n#CRON @daily\n", "W102", 3, "#BSUB lines"),
    "an option given twice": (LSF, "#BSUB -q a\n#BSUB -q b\n", "W220", 3, "Remove one"),
    "to where it was submitted": (PBS, "cd $PBS_O_WORKDIR\n", "W303", 2, "Write the whole path."),
    "to where it was submitted, on LSF": (LSF, 'cd "$LS_SUBCWD"\n', "W303", 2, "#BSUB -cwd /PATH"),
    "a relative cd": (GRID_ENGINE, "cd data\n", "W303", 2, "#$ -wd /PATH"),
    "its own folder": (GRID_ENGINE, 'cd "$(dirname "$0")"\n', "W307", 2, "#$ -wd /PATH"),
    "an array where jobs are processes of this machine": (LOCAL, "#SBATCH -a 1-5\n", "E201", 2, "Loop in the script"),
    "held by itself": (GRID_ENGINE, "#$ -h\n", "W218", 2, "qrls ID"),
    "a time to begin": (PBS, "#PBS -a 1200\n", "W221", 2, "schedule says when"),
    "the folder of the submission": (GRID_ENGINE, "#$ -cwd\n", "W303", 2, "Write #$ -wd /PATH"),
    "a limit that is none": (GRID_ENGINE, "#$ -l h_vmem=4G,h_rt=1h\n", "E207", 2, "Write -l h_rt=3600."),
    "memory that is none": (PBS, "#PBS -l select=2:ncpus=4:mem=8GiB\n", "E207", 2, "like 4gb"),
    "a number of tasks that is none": (LSF, "#BSUB -n four\n", "E207", 2, "like 4 or 4,8"),
    "an array that is none, once for name and tasks": (LSF, '#BSUB -J "a[0-4]"\n', "E207", 2, "name[1-10]"),
    "an array that runs backwards": (PBS, "#PBS -J 5-1\n", "E207", 2, "like 1-10"),
    "an array that runs backwards, on LSF": (LSF, '#BSUB -J "a[5-1]"\n', "E207", 2, "name[1-10]"),
    "a queue without its name": (PBS, "#PBS -q\n", "E207", 2, "like -q VALUE"),
    "an option of another Grid Engine": (GRID_ENGINE, "#$ -jc gpu\n", "W234", 2, "unless yours is one of those"),
    "whose value looks like options": (GRID_ENGINE, '#$ -xd "--env A=1"\n', "W234", 2, "Remove it"),
    "a log folder that is missing": (LSF, "#BSUB -o /gone/log/%J\n", "W215", 2, "mkdir -p /gone/log"),
}


@pytest.mark.parametrize(("dialect", "body", "code", "line", "fix"), BESIDE_SLURM.values(), ids=BESIDE_SLURM.keys())
def test_lines_are_read_as_the_system_that_is_here_reads_them(
    dialect: Dialect, body: str, code: str, line: int, fix: str
) -> None:
    (found,) = lint_script("a.slurm", (TOP + body).encode(), folder_schedule="@daily", facts=FACTS, dialect=dialect)
    assert (found.code, found.line) == (code, line)
    assert fix in found.fix
    assert dialect is SLURM or "sbatch" not in found.what + found.fix


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        pytest.param(GRID_ENGINE, "#$ -l h_rt=60 -N a\n#SBATCH -J a -t 1\n", id="a script for two systems"),
        pytest.param(LSF, "#SBATCH --ntasks=1 --no-requeue\n", id="what every job has anyway"),
        pytest.param(GRID_ENGINE, "echo\n#$ -N a\n", id="lines that are read to the end"),
        pytest.param(LSF, "# BSUB -J a\n", id="a spelling of LSF's that may be read"),
        pytest.param(LSF, "#BSUB -J exp-2024-11\n", id="a date in a job's name, which is no range of indexes"),
        pytest.param(PBS, "#PBS -l select=1:ncpus=4 -l place=scatter\n", id="lists of resources that add up"),
        pytest.param(SLURM, "#$ of the group\n", id="prose"),
        pytest.param(SLURM, "cat <<X\n#$ -N a\nX\n", id="a text that is written"),
        pytest.param(SLURM, "#BSUB -W 60\n", id="a line of LSF's that sbatch obeys"),
    ],
)
def test_good_scripts_of_other_systems_get_no_complaint(dialect: Dialect, body: str) -> None:
    found = lint_script("a.slurm", (TOP + body).encode(), folder_schedule="@daily", facts=FACTS, dialect=dialect)
    assert found == ()


def test_a_script_without_an_interpreter_is_refused_by_cronhpc_where_the_system_takes_it() -> None:
    (found,) = lint_script("a.slurm", b"echo\n", folder_schedule="@daily", dialect=GRID_ENGINE)
    assert (found.code, found.what) == ("E221", "the first line does not begin with #!: cronhpc refuses it.")


FIRST_LINES: dict[str, tuple[bytes, str, int]] = {
    "no interpreter": (b"echo\n", "E221", 1),
    "a comment before it": (b"# mine\n#!/bin/bash\necho\n", "E221", 1),
    "a blank before it": (b" #!/bin/bash\necho\n", "E221", 1),
    "a BOM": (b"\xef\xbb\xbf#!/bin/bash\necho\n", "E222", 1),
    "a BOM, and a schedule": (b"\xef\xbb\xbf#!/bin/bash\n#CRON @daily\n#SBATCH -t 5\necho\n", "E222", 1),
    "UTF-16, with a BOM and NUL bytes": ("#!/bin/bash\r\necho\r\n".encode("utf-16"), "E222", 1),
    "a blank line before it": (b"\n#!/bin/bash\necho\n", "E223", 1),
    "Windows line ends": (b"#!/bin/bash\r\n#SBATCH -t 5\r\necho\r\n", "E224", 1),
    "one Windows line end": (b"#!/bin/bash\necho\necho\r\n", "E224", 3),
    "a NUL byte": (b"#!/bin/bash\necho\n\0", "E225", 3),
    "nothing": (b"", "E226", 0),
    "nothing but blanks": (b" \n\t\n", "E226", 0),
}


@pytest.mark.parametrize(("data", "code", "line"), FIRST_LINES.values(), ids=FIRST_LINES.keys())
def test_what_sbatch_refuses_at_first_sight(data: bytes, code: str, line: int) -> None:
    assert [(p.code, p.line) for p in lint(data)] == [(code, line)]


def test_one_complaint_of_a_mark_is_enough() -> None:
    assert [p.code for p in lint(b"\xef\xbb\xbf#!/bin/bash\n#CRON @daily\necho\n", "cron.d/x.slurm", None)] == ["E222"]


def test_a_script_of_cron_d_needs_a_schedule() -> None:
    (problem,) = lint(TOP + "echo\n", "cron.d/sync.slurm", None)
    assert (problem.code, problem.severity) == ("E107", "error")
    (problem,) = lint(TOP + "#CRON --retries=2\necho\n", "cron.d/sync.slurm", None)
    assert (problem.code, problem.line) == ("E107", 2)
    assert lint(TOP + "#CRON @daily\necho\n", "cron.d/sync.slurm", None) == []


@pytest.mark.parametrize("text", ["#cron 0 4 * * *\ntrue\n", "true\n#CRON 0 4 * * *\n"])
def test_a_schedule_that_is_not_read_is_one_mistake(text: str) -> None:
    assert [p.code for p in lint(f"#!/bin/bash\n#SBATCH --time=5\n{text}", "cron.d/x.slurm", None)] == ["W102"]


INTERPRETERS = {
    "no #": b"!/bin/bash\n#SBATCH --time=5\n#CRON @daily\ntrue\n",
    "no !": b"#/bin/bash\n#SBATCH --time=5\n#CRON @daily\ntrue\n",
    "a blank between": b"# !/bin/bash\n#SBATCH --time=5\n#CRON @daily\ntrue\n",
}


@pytest.mark.parametrize("data", INTERPRETERS.values(), ids=INTERPRETERS.keys())
def test_a_misspelt_first_line_is_one_mistake(data: bytes) -> None:
    (problem,) = lint(data, "cron.d/x.slurm", None)
    assert (problem.code, problem.line, problem.fix) == ("E221", 1, 'Write "#!/bin/bash".')


def test_a_docstring_above_the_directives_hides_them() -> None:
    text = '#!/usr/bin/env python3\n"""Fits a model.\n\n#SBATCH --time=5\n#SBATCH -c 4\n"""\nimport x\n'
    assert [(p.code, p.line) for p in lint(text)] == [("W211", 4)]
    template = '#!/usr/bin/env python3\nimport x\nT = """\n#SBATCH --time=5\n"""\n'
    assert lint(template) == []


def test_two_logs_in_one_missing_folder_are_one_mistake() -> None:
    assert [(p.code, p.line) for p in lint(TOP + "#SBATCH -o /gone/a\n#SBATCH -e /gone/b\n")] == [("W215", 2)]


def test_functions_of_the_saved_environment_need_no_set_up() -> None:
    text = TOP.encode() + b"module load cuda\nconda activate x\n"
    facts = Facts(is_function={"module", "ml"}.__contains__)
    (problem,) = lint_script("a.slurm", text, folder_schedule="@daily", facts=facts)
    assert (problem.code, problem.line) == ("W304", 3)
    dash = text.replace(b"bash", b"sh")  # exported functions are bash's alone
    assert [p.line for p in lint_script("a.slurm", dash, folder_schedule="@daily", facts=facts)] == [2]


def test_the_script_of_a_series_may_queue_its_next_piece() -> None:
    text = TOP.encode() + b"cronhpc again\n"
    assert lint_script("a.slurm", text, folder_schedule="@daily", scheduled=False) == ()
    scheduled = text.replace(b"\n", b"\n#CRON @daily\n", 1)
    assert [p.code for p in lint_script("a.slurm", scheduled, folder_schedule=None, scheduled=False)] == ["W302"]


# A cluster whose default partition is small; --partition=long gives more time, and --partition=fat more of a node.
ROOM = {
    "small": Partition("small", default=True, time_limit=3600, nodes=4, most_nodes=2, memory=16_000, cpus=8),
    "long": Partition("long", time_limit=7 * 86400, nodes=4, memory=16_000, cpus=8),
    "fat": Partition("fat", time_limit=3600, nodes=1, memory=1_000_000, cpus=64),
    "theirs": Partition("theirs", nodes=9, accounts=("them",)),
}
# name: (the directives, by the settings, what is said of which)
TOO_MUCH: dict[str, tuple[str, dict[str, str], list[str]]] = {
    "what the default partition gives": ("--time=1:00:00 --nodes=2 --mem=16000 --cpus-per-task=8", {}, []),
    "more time than the default partition gives": ("--time=2:00:00", {}, ["small gives at most 1h. long"]),
    "no end of time": ("--time=UNLIMITED", {}, ["small gives at most 1h. "]),
    "the partition's own time": ("--time=0", {}, []),
    "more than the partition that it names gives": ("-p fat -t 1-0", {}, ["fat gives at most 1h. long"]),
    "time that one of its partitions gives": ("-p small,long -t 1-0", {}, []),
    "the partition that the settings give": ("-t 1-0", {"partition": "long"}, []),
    "a partition that nobody knows": ("-p none -t 1-0", {}, ["no partition none"]),
    "more nodes than one job may have": ("-N 3", {}, ["small gives at most 2 nodes. long"]),
    "at least more nodes than there are": ("-p long -N 5-8", {}, ["long gives at most 4 nodes. "]),
    "a range that begins with what there is": ("-N 2-8", {}, []),
    "more memory than a node has": ("--mem=64G", {}, ["small gives at most 16000M a node. fat"]),
    "all memory of a node": ("--mem=0", {}, []),
    "more CPUs than a node has": ("-c 16", {}, ["small gives at most 8 CPUs a node. fat"]),
    "what is no number": ("--mem=much --time=soon", {}, []),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_more_than_a_partition_gives(name: str) -> None:
    options, added, said = TOO_MUCH[name]
    text = f"{TOP}#SBATCH {options}\n".encode()
    found = lint_script("a.slurm", text, folder_schedule="@daily", facts=Facts(ROOM, added=added))
    found = tuple(each for each in found if each.code in {"W231", "E227"})
    assert all(each.line == 2 for each in found)
    told = [f"{p.what.partition('partition ')[2]} {p.fix.partition('partition: ')[2]}" for p in found]
    assert len(told) == len(said)
    for each, words in zip(told, said, strict=True):
        assert words.removeprefix("no partition ") in each


def test_where_partitions_are_not_known_nothing_is_said_of_them() -> None:
    text = f"{TOP}#SBATCH --time=90-0 --mem=9T\n".encode()
    assert lint_script("a.slurm", text, folder_schedule="@daily") == ()


@pytest.mark.parametrize(
    ("missing", "fix"),
    [
        ("pyhton3", "Did you mean python3?"),
        ("/bin/bahs", "Did you mean /bin/bash?"),
        ("/opt/python3", "Where nodes have it, all is well."),
        ("/opt/my/tool", "Where nodes have it, all is well."),
    ],
)
def test_an_interpreter_that_is_not_here(missing: str, fix: str) -> None:
    (problem,) = lint_script("a.slurm", b"#!/x\n", folder_schedule="@daily", facts=Facts(missing=missing))
    assert (problem.code, problem.line, problem.fix) == ("W232", 1, fix)
    assert f"names {missing}, which this machine lacks" in problem.what


def test_what_the_shell_cannot_read_is_at_its_line() -> None:
    facts = Facts(unreadable=Unreadable(3, "unexpected end of file"))
    (problem,) = lint_script("a.slurm", TOP.encode() + b"if x\n", folder_schedule="@daily", facts=facts)
    assert (problem.code, problem.line) == ("E230", 3)


# What sbatch and the controller say, of which option, with what it has to share the script.
REASONS = {
    "a node": ("Invalid node name specified", "--nodelist=cpu9", "--ntasks=2"),
    "a node to leave out": ("Invalid node name specified", "--exclude=cpu9", "--ntasks=2"),
    "a feature": ("Invalid feature specification", "--constraint=a100", "--ntasks=2"),
    "a preferred feature": ("Invalid preferred feature specification", "--prefer=a100", "--constraint=b"),
    "a licence": ("Invalid license specification", "--licenses=matlab", "--ntasks=2"),
    "an array": ("Invalid job array specification", "--array=1-9999", "--ntasks=2"),
    "memory": ("Memory specification can not be satisfied", "--mem=4000G", "--ntasks=2"),
    "memory, said as configuration": ("Requested node configuration is not available", "--mem=4000G", "--ntasks=1"),
    "a partition": ("invalid partition specified: nosuch", "--partition=nosuch", "--account=abc"),
    "a time limit": (
        "Requested time limit is invalid (missing or exceeds some limit)",
        "--time=9-0",
        "--partition=cpu",
    ),
    "an account": ("Invalid account or account/partition combination specified", "--account=abc", "--partition=cpu"),
    "a qos": ("Invalid qos specification", "--qos=abc", "--partition=cpu"),
    "a resource": ("Invalid generic resource (gres) specification", "--gres=foo:1", "--partition=cpu"),
    "a dependency": ("Job dependency problem", "--dependency=singleton", "--partition=cpu"),
    "a reservation": ("Requested reservation is invalid", "--reservation=abc", "--partition=cpu"),
    "what sbatch says, not a site's filter": (
        "lua: your account will be charged / Requested node configuration is not available",
        "--mem=4000G",
        "--partition=cpu",
    ),
    "what a filter says, where sbatch has no reason": (
        "lua: reservation abc is over / Unspecified error",
        "--reservation=abc",
        "--partition=cpu",
    ),
    "one that it names": ('Invalid numeric value "x" for --core-spec.', "--core-spec=1", "--partition=cpu"),
}


@pytest.mark.parametrize(("reason", "option", "other"), REASONS.values(), ids=REASONS.keys())
def test_a_refusal_is_at_the_line_of_its_option(reason: str, option: str, other: str) -> None:
    text = f"#!/bin/bash\n#SBATCH {other}\n#SBATCH {option}\ntrue\n".encode()
    found = lint_script("a.slurm", text, folder_schedule="@daily", facts=Facts(refused=tuple(reason.split(" / "))))
    assert [(p.code, p.line, p.fix) for p in found if p.code == "E228"] == [("E228", 3, f"Correct {option}.")]


def test_of_many_partitions_the_nearest_are_named_in_the_same_order() -> None:
    many = frozenset(f"{kind}{n}" for kind in ("cpu", "gpu", "mem") for n in range(15))
    found = {
        lint_script("a.slurm", b"#!/bin/sh\n#SBATCH -p b,a\n", folder_schedule="@daily", facts=Facts(each))
        for each in ({name: Partition(name) for name in names} for names in (sorted(many), sorted(many, reverse=True)))
    }
    (problems,) = found
    assert [p.what.rpartition(" ")[2] for p in problems] == ["b.", "a."]
    assert all(p.fix.endswith(" and 42 more: sinfo -s.") for p in problems)


# --- values, as the real sbatch judged them -------------------------------------------------------------------------


def verdicts() -> list[tuple[str, str]]:
    """(refused, newer or taken; what stands behind #SBATCH) of each row of the table."""
    rows = (Path(__file__).parents[1] / "data" / "sbatch_values_22.05.txt").read_text(encoding="utf-8").splitlines()
    return [(row[:8].strip(), row[8:]) for row in rows if not row.startswith("#")]


def errors_of(line: str) -> list[str]:
    return [str(p) for p in lint(f"{TOP}#SBATCH {line}\nsrun x\n") if p.severity == "error" and p.code != "E227"]


def test_a_value_is_an_error_where_sbatch_refuses_it_and_said_once() -> None:
    found = {line: errors_of(line) for verdict, line in verdicts() if verdict == "refused"}
    assert [(line, said) for line, said in found.items() if len(said) != 1] == []


def test_a_value_is_no_error_where_sbatch_takes_it_or_a_later_one_does() -> None:
    found = {line: errors_of(line) for verdict, line in verdicts() if verdict != "refused"}
    assert [(line, said) for line, said in found.items() if said] == []


# --- nothing to say -------------------------------------------------------------------------------------------------

GOOD = {
    "short options with their values": "#SBATCH -pcpu -Jtime -t5 -n4\n",
    "indexes in brackets": "#SBATCH --array=[1-3]\n",
    "a range of nodes": "#SBATCH -N 1-2 --kill-on-invalid-dep=yes\n",
    "commands in the background that are waited for": "./a &\n./b &\nwait\n",
    "a server beside the work": "./server &\npid=$!\n./work\nkill $pid\n",
    "a last & that is none": "x=$((3 & 1))\n./a 2>&1 && ./b &>/x\n",
    "how to submit it, in prose": (
        "#SBATCH --time=5\n# Aligns one sample. Use it like this:\n#   sbatch --array=1-9 align.slurm\n#\n"
        "#   sbatch --test-only align.slurm\necho\n"
    ),
    "how to submit it, above the directives": "#\n# sbatch -p cpu x.slurm\n# does it again\n#SBATCH --time=5\necho\n",
    "one line": "rsync -a /data /backup\n",
    "a full header": (
        "#SBATCH --job-name=hub-sync --time=20\n#SBATCH -p cpu -n 1 -c 4 --mem=4G\n"
        "#SBATCH --output=/var/log/%x-%j.out --mail-type=FAIL,TIME_LIMIT_80\n"
        "#SBATCH --signal=B:USR1@300 --array=0-9%2 --no-requeue --open-mode=append\n"
        "#CRON */30 8-18 * * mon-fri --timezone=Europe/Paris --overlap=skip --retries=2\n"
        "set -euo pipefail\ntrap 'touch /x' USR1\nhub push | tee x &\nwait\n"
    ),
    "directives that are switched off": (
        "##SBATCH --gres=gpu:1\n# SBATCH --mem=4G\n#  SBATCH -t 5\n# sbatch -n 1\n# #SBATCH -c 2\n"
    ),
    "one that is switched off among others": "#SBATCH -n 1\n##SBATCH --time=5\n# SBATCH -p cpu\n#SBATCH -c 4\n",
    "a limit above the schedule's step": "#SBATCH --time=2-0\n#CRON */30 * * * *\n",
    "what cronhpc deals with": "#SBATCH --wait\n#SBATCH --requeue\ncd .\n",
    "a remark behind a directive": "#SBATCH --time=30 # half an hour\n#SBATCH --job-name='run#1'\n",
    "a remark that ends in a backslash": "#SBATCH -t 5 \\\n#SBATCH -n 2\n",
    "counts that sbatch takes": "#SBATCH -N -1\n#SBATCH --signal=USR1@\nsrun x\n",
    "a signal that later versions know": "#SBATCH --signal=PIPE@60\nsrun x\n",
    "a signal to steps": "#SBATCH --signal=USR1@90\nsrun python t.py\n",
    "a signal to ranks": "#SBATCH --signal=USR1@90\nmpirun -n 4 ./x\n",
    "a signal with a trap and a wait": (
        "#SBATCH --signal=B:USR1@60 --time=10\ntrap 'kill -USR1 $pid' USR1\npython t.py &\npid=$!\nwait\n"
    ),
    "a signal to what takes the shell's place": "#SBATCH --signal=B:TERM@60\nexec python t.py\n",
    "a signal whose trap is elsewhere": "#SBATCH --signal=B:USR1@60\n. /x/traps.sh\npython t.py & wait\n",
    "curly quotes within quotes": "echo '\u201cwell done\u201d \u2013 all'\n",
    "curly quotes that are only printed": "echo \u201cwell done\u201d\n",
    "a trap within a function": (
        "#SBATCH --signal=B:USR1@60\narm() { trap 'kill $pid' USR1; }\narm\npython t.py &\npid=$!\nwait\n"
    ),
    "a dash in a comment": "#SBATCH --comment='train \u2013 first'\n# \u201cx\u201d\ntrue \u2014\n",
    "modules behind a file of the site's": "source /site/setup.sh\nmodule load cuda\nconda activate x\n",
    "modules behind a dot": "[ -f /site/x ] && . /site/x\nml cuda\n",
    "requeued when a signal comes": "trap 'scontrol requeue $SLURM_JOB_ID' USR1\nsrun x\n",
    "any singleton": "#SBATCH --dependency=singleton\n",
    "its log, named by itself": "#SBATCH -o /x/slurm-%j.out\ngzip -k /x/slurm-$SLURM_JOB_ID.out\n",
    "a table of equals signs": "cat <<E\n=======\nE\n",
    "comments about directives": (
        "# SBATCH options are above\n# use #SBATCH --time for the limit\n# #SBATCH --time=9\n# CRON runs this\n"
    ),
    "a slow schedule with a limit": "#SBATCH --time=4:00:00\n#CRON H 4 * * *\n",
    "an overlap that is meant": "#SBATCH --time=2:00:00\n#CRON */30 * * * * --overlap=skip\n",
    "no limit": "#CRON * * * * *\n",
    "a script written by a script": (
        "cat > job.sh <<'EOF'\n#!/bin/bash\n#SBATCH --time=5\n#CRON @daily\n"
        "cd data\nmodule load x\nEOF\nsbatch job.sh\n"
    ),
    "a here-document that is somebody's": "tee j.sh <<E\n#SBATCH -t 5\nE\n",
    "a here-document with tabs": "if true; then\n\tcat <<-EOF\n\t#SBATCH -t 5\n\tEOF\nfi\n",
    "a here-string": "read -r a <<< 'x'\nexit 0\n",
    "arithmetic shifts": "n=$((1 << N))\necho $n\n",
    "absolute and variable cd": "cd /data && cd sub\ncd $WORK/x\ncd\n",
    "cd with --chdir": "#SBATCH --chdir=/data\ncd sub\n",
    "cd in a string": 'echo "cd data"\npython -c "\nimport os\ncd = 1\n"\n',
    "module in a login shell's profile": "source /etc/profile.d/modules.sh\nmodule load cuda\n",
    "module after the bashrc": ". ~/.bashrc\nmodule load cuda\nconda activate x\n",
    "module tested for": "command -v module >/dev/null && module load cuda\n",
    "conda with its hook": 'eval "$(conda shell.bash hook)"\nconda activate x\n',
    "a word that begins with module": "modules=3\nmodule_name=x\necho module load\n",
    "pipefail": "set -o pipefail\na | tee log\n",
    "pipestatus": "a | tee log\nexit ${PIPESTATUS[0]}\n",
    "a pipe whose end is meant": "squeue -h | grep -q other\n",
    "a harmless producer": 'echo "done" | tee -a log\n',
    "a pipe in a substitution": 'n=$(ls | wc -l)\necho "$n"\n',
    "a pipe that is not last": "a | tee log\nb\n",
    "or is no pipe": "a || b\n",
    "clobber is no pipe": "a >| b\n",
    "a pipe in quotes": "echo 'a | b'\n",
    "a pipe inside a case": "case $1 in\n  a|b) echo;;\nesac\n",
    "secrets from files": (
        "tool --password-file=/x --token-file ~/t\ncurl --netrc https://x\nwandb login < key\nexport T=$(cat ~/t)\n"
    ),
    "URLs without secrets": "git clone https://git.example/x:y\nrsync me@host:/a /b\ngit pull ssh://git@host:22/x\n",
    "words like secrets": (
        "python t.py --tokenizer bert --max-tokens 5 --token 5\nTOKENS=100000000000000000\npasswd=$(x)\n"
    ),
    "another script": "sbatch /jobs/other.slurm\nsbatch backup.slurm.d/x.slurm\n",
    "the script's name": 'echo "$0 starts"\nusage() { echo "usage: $0"; }\n',
    "a job that asks for its own path": (
        "base=$(scontrol show job $SLURM_JOB_ID | awk -F= '/Command=/{print $2}' | xargs dirname)\n"
        '[ -n "$base" ] || base=$(dirname "$0")\n'
    ),
    "a hint that is only printed": 'echo "to start again: sbatch $0"\n',
    "conda's own set-up": "source /opt/miniconda3/bin/activate\nconda activate x\n",
    "conda's set-up in quotes": """s="$('/opt/conda/bin/conda' 'shell.bash' 'hook')"\neval "$s"\nconda activate x\n""",
    "more than one of its name": "[ $(squeue -h -n backup | wc -l) -gt 1 ] && exit 0\ntrue\n",
    "a watcher of others": "#SBATCH -J watch\nsqueue -h -n train\nsqueue --me | grep -v watch\n",
    "a watcher that leaves itself out": (
        '#SBATCH -J train-watch\nsqueue -h --me -o "%i %j" | grep train | grep -v "$SLURM_JOB_ID"\n'
    ),
    "options that add up": "#SBATCH --mail-type=END\n#SBATCH --mail-type=FAIL\n",
    "values in unusual forms": (
        '#SBATCH -n +2 -N 1-2 --mem=4gb --mail-type=all --signal=BR:usr1 --time=0-2 --array=" 1,,3-7:2,"\n'
    ),
    "an option twice alike": "#SBATCH -t 5\n#SBATCH --time=5\n",
    "a heterogeneous job": "#SBATCH -n 1\n#SBATCH hetjob\n#SBATCH -n 2\n",
    "PBS without a quarrel": "#SBATCH -t 5\n#PBS -N x\n",
    "a dollar that is none": '#SBATCH --comment="costs 5$"\n',
    "/dev/null": "#SBATCH -o /dev/null\n",
    "an apostrophe in a comment": "# don't\ncd /x\n# it's\ncd y\n",
}


@pytest.mark.parametrize("body", GOOD.values(), ids=GOOD.keys())
def test_of_a_good_script_nothing_is_said(body: str) -> None:
    assert [str(p) for p in lint(TOP + body)] == []


@pytest.mark.parametrize(
    "top", ["#!/bin/bash -l\n", "#!/bin/bash --login\n", "#!/usr/bin/env -S bash -l\n", "#!/bin/bash -el\n"]
)
def test_a_login_shell_has_modules(top: str) -> None:
    assert lint(top + "module load cuda\n") == []


def test_shell_habits_are_not_looked_for_in_other_languages() -> None:
    assert lint("#!/usr/bin/env python3\n#SBATCH -t 5\ncd = 'data'\nmodule = load\nprint(a | b)\n") == []


def test_the_secret_itself_is_not_repeated() -> None:
    for body in (
        "tool --password=hunter2\n",
        "curl https://u:hunter2@x/\n",
        "#SBATCH --export=X_TOKEN=hunter2hunter2hu\n",
    ):
        found = lint(TOP + body)
        assert found
        assert "hunter2" not in " ".join(map(str, found))


def test_what_is_not_known_is_not_said() -> None:
    text = b"#!/bin/bash\n#SBATCH -p nosuch -D /gone -o /gone/x\n"
    assert lint_script("a.slurm", text, folder_schedule="@daily") == ()
    unknown = Facts(is_folder=lambda _: None)
    assert lint_script("a.slurm", text, folder_schedule="@daily", facts=unknown) == ()


def test_what_sbatch_says_is_passed_on_and_can_be_ignored() -> None:
    facts = Facts(refused=("Invalid account",))
    (problem,) = lint_script("a.slurm", b"#!/bin/sh\ntrue\n", folder_schedule="@daily", facts=facts)
    assert (problem.code, problem.what) == ("E228", "sbatch would refuse it: Invalid account.")
    ignored = b"#!/bin/sh\n# cronhpc: ignore=E228\ntrue\n"
    assert lint_script("a.slurm", ignored, folder_schedule="@daily", facts=facts) == ()


FULL = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


@pytest.mark.parametrize("reason", [f"QOSMaxSubmitJobPerUserLimit / {FULL}", FULL, "Job queue full"])
def test_a_queue_that_is_full_just_now_is_no_fault_of_a_line(reason: str) -> None:
    text = b"#!/bin/bash\n#SBATCH --time=5 --qos=long\ntrue\n"
    (problem,) = lint_script("a.slurm", text, folder_schedule="@daily", facts=Facts(refused=tuple(reason.split(" / "))))
    assert (problem.code, problem.line) == ("E228", 0)
    assert problem.fix.startswith("Nothing, if your jobs fill the queue just now")


ATOMS = [
    *(
        "#SBATCH ",
        "#CRON ",
        "#PBS ",
        "--",
        "-J",
        "\n",
        '"',
        "'",
        "$(",
        "(",
        ")",
        "`",
        "<<EOF\n",
        "EOF\n",
        "<<-A",
        "<<<",
        "|",
    ),
    *("||", "&&", "&", ";", "#", " ", "\t", "cd x", "sbatch $0", "squeue -n a", "module load", "a", "=", "*/5 * * * *"),
    *(
        "# cronhpc: ignore=W301",
        "\r\n",
        "\0",
        "\xe9",
        "case x in",
        "{",
        "}",
        "$((1<<2))",
        "grep -q '[a'",
        "\\\n",
        "set -e",
    ),
]


@pytest.mark.thorough
@given(st.lists(st.sampled_from(ATOMS), max_size=40), st.booleans())
@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_a_script_holds_it_is_read_and_each_complaint_is_whole(atoms: list[str], with_top: bool) -> None:  # noqa: FBT001 - drawn
    data = ((TOP if with_top else "") + "".join(atoms)).encode("latin-1")
    for problem in lint(data):
        assert problem.code in CODES
        assert problem.what
        assert problem.fix
        assert 0 <= problem.line <= data.count(b"\n") + 1


HOSTILE = [
    "<<A\n" * 5000,
    "<<" * 20000,
    "$(" * 20000,
    "(\n" * 20000,
    '"' * 9999,
    "a|" * 20000,
    "a\\\n" * 20000,
    "# x\n" * 20000,
]


@pytest.mark.parametrize("body", HOSTILE, ids=lambda body: repr(body[:4]))
def test_no_script_takes_long(body: str) -> None:
    started = time.process_time()
    lint(TOP + body)
    assert time.process_time() - started < 2


# --- scripts as people write them -----------------------------------------------------------------------------------

SCRIPTS = Path(__file__).parents[1] / "data" / "scripts"


def test_of_scripts_as_people_write_them_this_is_said_and_no_more() -> None:
    said = [
        str(problem)
        for path in sorted(SCRIPTS.glob("*.slurm"))
        for problem in lint_script(path.name, path.read_bytes(), folder_schedule="30 4 * * *")
    ]
    assert said == (SCRIPTS / "complaints.txt").read_text(encoding="utf-8").splitlines()


# --- ignore --------------------------------------------------------------------------------------------------------

IGNORED = {
    "on the line": "#SBATCH --begin=now # cronhpc: ignore=W221\ncd data\n",
    "several codes": "#SBATCH --begin=now --hold # cronhpc: ignore=W221, W218\ncd data\n",
    "blanks": "#SBATCH --begin=now # cronhpc : ignore = W221\ncd data\n",
    "small letters": "#SBATCH --begin=now # cronhpc: ignore=w221\ncd data\n",
    "on the line above": "#SBATCH -t 5\ntrue\n# cronhpc: ignore=W307\nx=$(dirname $0)\ncd data\n",
    "at the top": "# cronhpc: ignore=W221,W306\n#SBATCH -J a\n#SBATCH --begin=now\ncd data\nsqueue -n a\n",
    "an error": "#SBATCH --site-plugin=1 # cronhpc: ignore=E201\ncd data\n",
    "on the #CRON line": "#CRON */5 * * * * --retrys=2 # cronhpc: ignore=E102\ncd data\n",
    "a code of a former version": "# cronhpc: ignore=W214\ncd data\n",
}


@pytest.mark.parametrize("body", IGNORED.values(), ids=IGNORED.keys())
def test_an_ignore_comment_silences_its_code_and_no_other(body: str) -> None:
    assert [p.code for p in lint(TOP + body)] == ["W303"]


def test_an_ignore_comment_on_another_line_silences_nothing() -> None:
    assert [p.code for p in lint(TOP + "true # cronhpc: ignore=W303\n\ncd data\n")] == ["W303"]


# --- the table and the screen -------------------------------------------------------------------------------------


def test_every_code_has_a_situation_and_a_line_in_the_table() -> None:
    shown = {code for _, code, *_ in SITUATIONS.values()} | {code for _, code, _ in FIRST_LINES.values()}
    assert shown | {"E107", "E228", "W229", "W231", "W232", "W234"} == CODES


PROBLEMS = [
    Problem(
        "W210", '"#SBATCH --output=$RUN/out.txt": no.', "Use %x.", file="cron.daily/backup.slurm", line=4, key="output"
    ),
    Problem("E101", "cron has no 0/15.", "Write */15.", file="cron.d/a,b:c.slurm", line=3),
    Problem("W001", "not a .slurm file: it will never run.", "Remove it.", file="cron.hourly/new\n\x1b[31m\udce9.sh"),
]


def test_text_is_a_line_each_and_the_count() -> None:
    assert render(PROBLEMS).split("\n") == [
        'cron.daily/backup.slurm:4: W210 "#SBATCH --output=$RUN/out.txt": no. Use %x.',
        "cron.d/a,b:c.slurm:3: E101 cron has no 0/15. Write */15.",
        "cron.hourly/new\\n\\e[31m\\xe9.sh: W001 not a .slurm file: it will never run. Remove it.",
        "2 warnings, 1 error",
    ]


def test_counts_in_words() -> None:
    assert summary([]) == "nothing to fix"
    assert summary(PROBLEMS[:1]) == "1 warning"
    assert summary([PROBLEMS[1]] * 2) == "2 errors"


def test_json_has_the_same_facts() -> None:
    whole = json.loads(json.dumps(check_facts(PROBLEMS)))
    assert (whole["warnings"], whole["errors"]) == (2, 1)
    assert whole["problems"][0] == {
        "file": "cron.daily/backup.slurm",
        "line": 4,
        "code": "W210",
        "severity": "warning",
        "key": "output",
        "what": '"#SBATCH --output=$RUN/out.txt": no.',
        "fix": "Use %x.",
    }


def test_github_gets_workflow_commands() -> None:
    lines = render(PROBLEMS, fmt="github").split("\n")
    assert lines[0].startswith("::warning file=cron.daily/backup.slurm,line=4,title=W210::")
    assert lines[0].endswith("Use %25x.")
    assert lines[1].startswith("::error file=cron.d/a%2Cb%3Ac.slurm,line=3,title=E101::")
    assert lines[2].startswith("::warning file=cron.hourly/new\\n")
    assert len(lines) == 4


def test_a_problem_of_no_file_begins_with_its_code() -> None:
    problem = Problem("W229", "the cluster gave no answer.", "Try again later.")
    assert str(problem) == "W229 the cluster gave no answer. Try again later."
    assert render([problem], fmt="github").splitlines()[0].startswith("::warning title=W229::the cluster")
