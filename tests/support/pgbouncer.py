"""A PgBouncer before a PostgreSQL server of the tests, where its program is installed."""

import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.eventually import until
from tests.support.free_ports import free_ports

_ACCOUNTS = ("postgres", "nobody")


def program() -> str | None:
    """The program; BRIDGE_TEST_PGBOUNCER names another."""
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
    reason="needs PostgreSQL's server programs, and PgBouncer 1.21 or later, which BRIDGE_TEST_PGBOUNCER may "
    "name",
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
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "pool_mode": pool_mode,
        "max_client_conn": 200,
        "default_pool_size": 40,
        **settings,
    }
    lines = [
        "[databases]",
        f"* = host={host} port={server_port} user={parts.username or 'bridge'}",
        "[pgbouncer]",
    ]
    lines += [f"{name} = {value}" for name, value in values.items()]
    (folder / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
    account = _account()
    if account is not None:
        for path in (folder, folder / "pgbouncer.ini"):
            os.chown(path, account.pw_uid, account.pw_gid)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [found, str(folder / "pgbouncer.ini")],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
            user=None if account is None else account.pw_uid,
            group=None if account is None else account.pw_gid,
            extra_groups=None if account is None else [],
        )  # fmt: skip
    try:
        _wait_until_it_listens(process, port, folder / "log")
        yield f"postgresql://{parts.username or 'bridge'}@127.0.0.1:{port}{parts.path}"
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _account() -> pwd.struct_passwd | None:
    """The user that it runs as: it refuses to be root."""
    if os.geteuid() != 0:
        return None
    for name in _ACCOUNTS:
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError(f"there is no user {' or '.join(_ACCOUNTS)} that PgBouncer could run as")


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    def said() -> str:
        return f"pgbouncer does not listen: {log.read_text(errors='replace')}"

    def listens() -> bool:
        if process.poll() is not None:
            raise RuntimeError(said())
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    until(listens, said)
