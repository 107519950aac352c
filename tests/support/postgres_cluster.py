"""A private PostgreSQL server in a folder of its own, which ends with the tests however these end: run as
`python -m tests.support.postgres_cluster PID FOLDER`, this waits until that process has ended, and clears up.
"""

import os
import pwd
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.programs import free_ports
from tests.support.waiting import until

_SECONDS = "60"

# Nothing of this server has to outlive a power cut, and nothing of it is reached from another machine.
_OPTIONS = {
    "fsync": "off", "full_page_writes": "off", "wal_level": "minimal", "max_wal_senders": "0",
    "listen_addresses": "", "max_connections": "300", "shared_buffers": "64MB",
    "max_locks_per_transaction": "128", "timezone": "UTC", "autovacuum": "off",
}  # fmt: skip
_DURABLE = {"fsync": "on", "full_page_writes": "on", "autovacuum": "on"}


def programs() -> Path | None:
    """The folder of the newest server programs of this machine."""
    folders = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr/local/opt").glob("postgresql*/bin")]
    folders = [folder for folder in folders if (folder / "initdb").exists()]
    if folders:
        versions = {folder: folder.parent.name.rpartition("@")[2] for folder in folders}
        return max(folders, key=lambda folder: [int(part) for part in re.findall(r"\d+", versions[folder])])
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


class PostgresCluster:
    """A server that is reached by the Unix socket in its folder, by the user `bridge`, without a password."""

    def __init__(self, folder: Path, bin_folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._programs = bin_folder

    @classmethod
    def made(cls, owner: int, *, is_durable: bool = False, files: Path | None = None) -> "PostgresCluster":
        """A new one, not started yet, that is removed once the process `owner` has ended.

        One that `is_durable` waits for the disk. The first call keeps the new `files`, and others copy them.
        """
        bin_folder = programs()
        assert bin_folder is not None
        folder = Path(tempfile.mkdtemp(prefix="bridge-postgres-"))
        cluster = cls(folder, bin_folder)
        if (account := _account()) is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
        subprocess.run(  # a process of its own clears the folder once `owner` has ended
            [sys.executable, "-m", __spec__.name, str(owner), str(folder)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=Path(__file__).parents[2], check=True,
        )  # fmt: skip
        if files is not None and files.exists():
            _copy(files, cluster.data)
        else:
            cluster.initialize()
            if files is not None:
                _copy(cluster.data, files)
        cluster.configure(is_durable=is_durable)
        return cluster

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://bridge@/{database}?host={self.folder}"

    def initialize(self) -> None:
        """Make the files. The default order of texts is a language's, so that what relies on it shows."""
        arguments = ["--auth=trust", "--username=bridge", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        if "--icu-locale" in self._output("initdb", "--help"):
            arguments += ["--locale-provider=icu", "--icu-locale=en"]
        self._output("initdb", f"--pgdata={self.data}", *arguments)

    def configure(self, *, is_durable: bool = False) -> None:
        options = {**_OPTIONS, **(_DURABLE if is_durable else {})}
        options["unix_socket_directories"] = str(self.folder)
        with (self.data / "postgresql.conf").open("a") as stream:
            stream.writelines(f"{name} = '{value}'\n" for name, value in options.items())

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        log = self.folder / "log"
        self._output("pg_ctl", "start", "-w", "-t", _SECONDS, "-D", str(self.data), "-l", str(log))

    def stop(self, mode: str = "fast") -> None:
        """Stop it as pg_ctl's mode says: `fast`, or `immediate` for a crash."""
        self._output("pg_ctl", "stop", "-w", "-t", _SECONDS, "-m", mode, "-D", str(self.data))

    def promote(self) -> None:
        self._output("pg_ctl", "promote", "-w", "-t", _SECONDS, "-D", str(self.data))

    @property
    def is_running(self) -> bool:
        """Whether its main process has left its process id."""
        return (self.data / "postmaster.pid").exists()

    def _output(self, program: str, *arguments: str) -> str:
        variables = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        with tempfile.TemporaryFile() as output:  # a pipe would be held open by the server
            done = subprocess.run(
                [self._programs / program, *arguments],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder, env=variables,
                check=False, **_as_user(),
            )  # fmt: skip
            output.seek(0)
            text = output.read().decode(errors="replace")
        if done.returncode:
            raise RuntimeError(f"{program} failed: {text}")
        return text


def _account() -> pwd.struct_passwd | None:
    """The user whose server it is: PostgreSQL and PgBouncer refuse to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("there is no user postgres or nobody that the server could run as")


def _as_user() -> dict[str, Any]:
    """The arguments of `subprocess` that run a program as that user."""
    account = _account()
    if account is None:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _copy(files: Path, target: Path) -> None:
    """Copy the files with their owner, who alone may read them."""
    subprocess.run(["cp", "-a", files, target], check=True)


def main() -> None:
    """Leave a process behind that watches. Nobody waits for it."""
    owner, folder = int(sys.argv[1]), Path(sys.argv[2])
    if os.fork() > 0:
        os._exit(0)
    os.setsid()
    descriptor = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(descriptor, stream)
    _wait_for_end(owner)
    bin_folder = programs()
    assert bin_folder is not None
    cluster = PostgresCluster(folder, bin_folder)
    if cluster.is_running:
        with suppress(RuntimeError, OSError):
            cluster.stop("immediate")
    shutil.rmtree(folder, ignore_errors=True)


def _wait_for_end(pid: int) -> None:
    with suppress(ProcessLookupError):
        if hasattr(os, "pidfd_open"):
            select.select([os.pidfd_open(pid)], [], [])
            return
        while True:
            os.kill(pid, 0)
            time.sleep(0.5)


if __name__ == "__main__":
    main()


def program() -> str | None:
    """The program of PgBouncer; BRIDGE_TEST_PGBOUNCER names another."""
    return os.environ.get("BRIDGE_TEST_PGBOUNCER") or shutil.which(
        "pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin"
    )


def keeps_prepared_statements() -> bool:
    """Whether it is 1.21 or later, which knows statements that are prepared in transactions."""
    found = program()
    if found is None:
        return False
    done = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"PgBouncer (\d+)\.(\d+)", done.stdout)
    return version is not None and (int(version[1]), int(version[2])) >= (1, 21)


needs_pgbouncer = pytest.mark.skipif(
    program() is None,
    reason="needs PostgreSQL's server programs, and pgbouncer: `scripts/system-packages` installs them",
)
needs_kept_statements = pytest.mark.skipif(
    not keeps_prepared_statements(),
    reason="needs PostgreSQL's server programs, and PgBouncer 1.21, which BRIDGE_TEST_PGBOUNCER may name",
)


@contextmanager
def open_pgbouncer(database_url: str, pool_mode: str, **settings: object) -> Iterator[str]:
    """The URL by which a pooler leads to the database; `settings` are of its section [pgbouncer]."""
    found = program()
    assert found is not None
    parts, (port,) = urlsplit(database_url), free_ports(1)
    query = parse_qs(parts.query)
    host, server_port = query.get("host", [parts.hostname])[0], query.get("port", [parts.port or 5432])[0]
    folder = Path(tempfile.mkdtemp(prefix="bridge-pgbouncer-"))
    values = {
        "listen_addr": "127.0.0.1", "listen_port": port, "unix_socket_dir": "", "auth_type": "any",
        "pool_mode": pool_mode, "max_client_conn": 200, "default_pool_size": 40, **settings,
    }  # fmt: skip
    database = f"* = host={host} port={server_port} user={parts.username or 'bridge'}"
    lines = ["[databases]", database, "[pgbouncer]", *(f"{name} = {values[name]}" for name in values)]
    (folder / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
    if (account := _account()) is not None:
        for path in (folder, folder / "pgbouncer.ini"):
            os.chown(path, account.pw_uid, account.pw_gid)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [found, str(folder / "pgbouncer.ini")],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, **_as_user(),
        )  # fmt: skip

    def said() -> str:
        return f"pgbouncer does not listen: {(folder / 'log').read_text(errors='replace')}"

    def listens() -> bool:
        if process.poll() is not None:
            raise RuntimeError(said())
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    try:
        until(listens, said)
        yield f"postgresql://{parts.username or 'bridge'}@127.0.0.1:{port}{parts.path}"
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
