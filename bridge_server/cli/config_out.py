"""The file of `dev --config-out`: the banner's facts, for programs."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from bridge_server.cli.options import CommandError
from bridge_server.cli.process import write_private
from bridge_server.kernel.process_ids import is_running

_MAKER = "bridge-server dev"
_ENV_SUFFIX = ".env"
_ENV_MARK = f"# {_MAKER}, process "


@contextmanager
def config_file_at(path: Path | None, facts: Mapping[str, Any]) -> Iterator[None]:
    """Keep the file during the block, for its owner alone (mode 0600): JSON, or shell if it is named *.env.

    A file that `dev` did not write is not overwritten, nor the file of a running `dev`. Raises CommandError.
    """
    if path is None:
        yield
        return
    _require_own(path)
    content = _as_env(facts) if path.suffix == _ENV_SUFFIX else _as_json(facts)
    try:
        write_private(path, content)
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


def _as_json(facts: Mapping[str, Any]) -> bytes:
    return orjson.dumps({"made_by": _MAKER, **facts}, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


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
        if isinstance(document, dict) and document.get("made_by") == _MAKER:
            return int(document["pid"])
    return None
