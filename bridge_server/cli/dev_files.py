"""The files of `bridge-server dev`: its data directory, and the banner's facts for programs."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import orjson

from bridge_server.cli.options import CommandError
from bridge_server.cli.process import read_server_file, write_file
from bridge_server.kernel.process import is_running
from bridge_server.kernel.secrets import new_secret
from bridge_server.projects.service import SECRET_PREFIX
from bridge_server.settings.server import DATABASE_FILE, SERVER_FILE
from bridge_server.storage.data_directory import ThrowawayDirectory

COMMAND = "bridge-server dev"

# The data directory of `dev`: it goes with the process, or it is kept.

_PREFIX = "bridge-server-dev-"
_DATA = "data"

_MARK = "dev.json"
_SECRET = "project_secret"  # noqa: S105 - the name of a member


class DevData:
    """The data directory of one run, and the demo project's secret. It is removed at exit unless kept."""

    def __init__(self, kept: Path | None) -> None:
        self.is_kept = kept is not None
        if kept is None:
            self._throwaway: ThrowawayDirectory | None = ThrowawayDirectory(_PREFIX)
            self.path = self._throwaway.path / _DATA
            self.project_secret = _new_project_secret()
            return
        if kept == Path():
            raise CommandError("--keep .: name a directory: data is never put into the working directory")
        self._throwaway = None
        self.path = kept.expanduser().absolute()
        try:
            self.project_secret = _kept_secret(self.path)
        except OSError as error:
            raise CommandError(f"--keep {self.path}: {error.strerror}: name another directory") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove a directory that is not kept."""
        if self._throwaway is not None:
            self._throwaway.remove()


def urls_of_dev() -> list[str]:
    """The URLs of this user's servers of `dev` on this machine that keep nothing."""
    folders = [each for each in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*") if _is_own(each)]
    facts = [read_server_file(each / _DATA / SERVER_FILE) for each in folders]
    return sorted(str(each["url"]) for each in facts if each is not None and is_running(each["pid"]))


def _is_own(folder: Path) -> bool:
    with suppress(OSError):
        return not folder.is_symlink() and folder.lstat().st_uid == os.geteuid()
    return False


def _kept_secret(directory: Path) -> str:
    """The secret of the last run over the directory, or a new one. Raises CommandError.

    Test mode can empty the database: a directory that no `dev` has begun is refused.
    """
    mark = directory / _MARK
    if (directory / DATABASE_FILE).exists() and not mark.exists():
        raise CommandError(
            f"--keep {directory}: it has another server's data, which dev may empty: name a new directory"
        )
    try:
        return str(orjson.loads(mark.read_bytes())[_SECRET])
    except FileNotFoundError:
        secret = _new_project_secret()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(mark, orjson.dumps({_SECRET: secret}))
        return secret
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{mark} cannot be read: remove it, and the project has a new secret") from error


def _new_project_secret() -> str:
    return f"{SECRET_PREFIX}demo_{new_secret(os.urandom)}"


# The file of `dev --config-out`: the banner's facts, for programs.


_ENV_MARK = f"# {COMMAND}, process "


@contextmanager
def config_file_at(path: Path | None, facts: Mapping[str, Any]) -> Iterator[None]:
    """Keep a file of mode 0600 during the block: JSON, or shell if it is named *.env. Raises CommandError."""
    if path is None:
        yield
        return
    _require_own(path)
    spaced = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    document = {"made_by": COMMAND, **facts}
    content = _as_env(facts) if path.suffix == ".env" else orjson.dumps(document, option=spaced)
    try:
        write_file(path, content)
    except OSError as error:
        raise CommandError(f"--config-out {path}: {error.strerror or error}: name another file") from error
    try:
        yield
    finally:
        remove_config_file(path)


def remove_config_file(path: Path) -> None:
    """Remove the file if this process wrote it."""
    if _pid_in(path) == os.getpid():
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _as_env(facts: Mapping[str, Any]) -> bytes:
    """Variables of the names that tests and their fixtures read."""
    project = facts["project"]
    values = {
        "BRIDGE_URL": facts["url"],
        "BRIDGE_V07_URL": facts["v07_url"],
        "BRIDGE_RPC_URL": facts["rpc_url"],
        "BRIDGE_LAN_URL": facts.get("lan_url"),
        "BRIDGE_TEST_TOKEN": facts["test_token"],
        "BRIDGE_ADMIN_TOKEN": facts["admin_token"],
        "BRIDGE_PROJECT_ID": project["id"],
        "BRIDGE_PROJECT_SECRET": project["secret"],
    }
    lines = [f"export {name}={value}" for name, value in values.items() if value is not None]
    return "\n".join([f"{_ENV_MARK}{facts['pid']}", *lines, ""]).encode()


def _require_own(path: Path) -> None:
    if not path.exists() and not path.is_symlink():
        return
    pid = _pid_in(path) if path.is_file() else None
    if pid is None:
        raise CommandError(f"--config-out {path}: it is there, and dev did not write it: name another file")
    if pid != os.getpid() and is_running(pid):
        raise CommandError(f"--config-out {path}: it belongs to process {pid}, which runs: name another file")


def _pid_in(path: Path) -> int | None:
    """The process that wrote the file; None if it was not `dev`."""
    with suppress(OSError, ValueError):
        text = path.read_text("utf-8")
        if text.startswith(_ENV_MARK):
            return int(text.splitlines()[0].removeprefix(_ENV_MARK))
        document = orjson.loads(text)
        if isinstance(document, dict) and document.get("made_by") == COMMAND:
            return int(document["pid"])
    return None
