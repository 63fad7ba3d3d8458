"""mariadbd and slurmdbd of the lab's own, and what sacctmgr puts in."""

from __future__ import annotations

import getpass
import subprocess
from pathlib import Path

from .options import Facts, LabError, Layout, Ports
from .programs import clean_environment, find

CLUSTER = "lab"
# Names of one file in MariaDB 10 and 11: the tables that a server starts with, less its long help texts.
SYSTEM_TABLES = ("mariadb_system_tables.sql", "mysql_system_tables.sql")
SHARES = ("/usr/share/mysql", "/usr/share/mariadb", "/usr/local/share/mysql")
# nothing here outlives the lab, so nothing waits for the disk
QUICK = ("--innodb-flush-method=nosync", "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=64M")


def _common(layout: Layout) -> list[str]:
    return [find("mariadbd"), "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={layout.sql}", *QUICK]


def server_argv(layout: Layout, ports: Ports) -> list[str]:
    """The command line of mariadbd: on the loopback address, without passwords, for the lab alone."""
    return [
        *_common(layout),
        f"--socket={layout.sql_socket}",
        f"--pid-file={layout.root}/run/sql.pid",
        f"--port={ports.sql}",
        "--bind-address=127.0.0.1",
        "--skip-grant-tables",
        "--skip-name-resolve",
        "--innodb-lock-wait-timeout=900",
    ]


def prepare(layout: Layout) -> None:
    """Make the database's own tables (0.3 s; mariadb-install-db takes five times as long).

    Raises LabError when MariaDB or its table definitions are missing, or it fails.
    """
    (layout.sql / "mysql").mkdir(mode=0o700, parents=True)
    tables = [Path(share, name) for share in SHARES for name in SYSTEM_TABLES if Path(share, name).exists()]
    if not tables:
        raise LabError(
            "MariaDB's system tables are not installed. On Debian: apt-get install -y mariadb-server slurmdbd"
        )
    done = subprocess.run(
        [*_common(layout), "--bootstrap", "--skip-grant-tables"],
        input="use mysql;\n" + tables[0].read_text(encoding="utf-8"),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=clean_environment(),
    )
    if done.returncode:
        raise LabError(f"mariadbd --bootstrap: exit {done.returncode}\n{done.stderr[-2000:]}")


def fill(facts: Facts) -> None:
    """Add the cluster, the account, its users, and their limit, before the controller starts.

    Raises LabError when sacctmgr refuses.
    """
    options = facts.options
    _sacctmgr(facts, "add", "cluster", CLUSTER)
    _sacctmgr(facts, "add", "account", options.account, "Description=lab", "Organization=lab", f"Cluster={CLUSTER}")
    users = options.users or (getpass.getuser(),)
    if users != ("root",):  # root has its association from the start, and needs none
        _sacctmgr(
            facts, "add", "user", ",".join(users), f"Account={options.account}", f"DefaultAccount={options.account}"
        )
    if options.max_submit is not None:
        _sacctmgr(facts, "modify", "qos", "normal", "set", f"MaxSubmitJobsPerUser={options.max_submit}")


def _sacctmgr(facts: Facts, *words: str) -> None:
    environment = {**clean_environment(), **facts.environment}
    done = subprocess.run(
        [find("sacctmgr"), "-i", *words], capture_output=True, text=True, check=False, timeout=30, env=environment
    )
    if done.returncode and "Nothing" not in done.stdout:  # "Nothing new added": it is there already
        raise LabError(f"sacctmgr {' '.join(words)}: {(done.stdout + done.stderr).strip()}")
