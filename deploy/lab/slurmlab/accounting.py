"""mariadbd and slurmdbd of the lab's own, and what sacctmgr puts in."""

from __future__ import annotations

import getpass
import subprocess
from pathlib import Path

from .options import Facts, LabError, Layout, Options, Ports
from .programs import clean_environment, find

CLUSTER = "lab"
# Names of one file in MariaDB 10 and 11: the tables that a server starts with, less its long help texts.
SYSTEM_TABLES = ("mariadb_system_tables.sql", "mysql_system_tables.sql")
SHARES = ("/usr/share/mysql", "/usr/share/mariadb", "/usr/local/share/mysql")
# nothing here outlives the lab, so nothing waits for the disk
QUICK = ("--innodb-flush-method=nosync", "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=64M")


def server_argv(layout: Layout, ports: Ports) -> list[str]:
    """The command line of mariadbd: on the loopback address, without passwords, for the lab alone.

    It makes its own tables at its first start, in a third of the time of mariadb-install-db.
    """
    return [
        find("mariadbd"),
        "--no-defaults",
        f"--user={getpass.getuser()}",
        f"--datadir={layout.sql}",
        f"--init-file={layout.tables}",
        f"--socket={layout.sql_socket}",
        f"--pid-file={layout.root}/run/sql.pid",
        f"--port={ports.sql}",
        "--bind-address=127.0.0.1",
        "--skip-grant-tables",
        "--skip-name-resolve",
        "--innodb-lock-wait-timeout=900",
        *QUICK,
    ]


def prepare(layout: Layout) -> None:
    """Lay out what mariadbd starts from.

    Raises LabError when its table definitions are not installed.
    """
    tables = [Path(share, name) for share in SHARES for name in SYSTEM_TABLES if Path(share, name).exists()]
    if not tables:
        raise LabError(
            "MariaDB's system tables are not installed. On Debian: apt-get install -y mariadb-server slurmdbd"
        )
    (layout.sql / "mysql").mkdir(mode=0o700, parents=True)
    layout.tables.write_text("use mysql;\n" + tables[0].read_text(encoding="utf-8"), encoding="utf-8")


def fill(facts: Facts) -> None:
    """Add the cluster, the account, its users, and their limit, before the controller starts.

    In one call: most of sacctmgr's time is waiting for small packets. Raises LabError when it refuses.
    """
    done = subprocess.run(
        [find("sacctmgr"), "-i"],
        input="\n".join(sacctmgr_orders(facts.options, getpass.getuser())) + "\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**clean_environment(), **facts.environment},
    )
    if done.returncode:
        raise LabError(f"sacctmgr: exit {done.returncode}\n{(done.stdout + done.stderr).strip()}")


def sacctmgr_orders(options: Options, owner: str) -> list[str]:
    """What sacctmgr is to do, a line each. Root has its association from the start."""
    account = options.account
    users = ",".join(name for name in options.users or (owner,) if name != "root")
    limit = f"modify qos normal set MaxSubmitJobsPerUser={options.max_submit}"
    return [
        f"add cluster {CLUSTER}",
        f"add account {account} Cluster={CLUSTER} Description=lab Organization=lab",
        *([f"add user {users} Account={account} DefaultAccount={account}"] if users else []),
        *([limit] if options.max_submit is not None else []),
    ]
