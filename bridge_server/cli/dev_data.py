"""The data directory of `dev`: it goes with the process, or it is kept."""

import os
from pathlib import Path
from typing import Self

import orjson

from bridge_server.cli.options import CommandError
from bridge_server.cli.process import write_private
from bridge_server.kernel.secrets import new_secret
from bridge_server.projects.projects import SECRET_PREFIX
from bridge_server.storage.throwaway import ThrowawayDirectory

_PREFIX = "bridge-server-dev-"
_DATABASE = "bridge.sqlite3"
_MARK = "dev.json"
_SECRET = "project_secret"  # noqa: S105 - the name of a member


class DevData:
    """The data directory of one run, and the demo project's secret, which stays with a kept directory.

    As a context manager it removes a directory that is not kept.
    """

    def __init__(self, kept: Path | None) -> None:
        self.is_kept = kept is not None
        if kept is None:
            self._throwaway: ThrowawayDirectory | None = ThrowawayDirectory(_PREFIX)
            self.path = self._throwaway.path / "data"
            self.project_secret = _new_project_secret()
        else:
            if kept == Path():
                raise CommandError("--keep .: name a directory: data is never put into the working directory")
            self._throwaway = None
            self.path = kept.expanduser().absolute()
            self.project_secret = _kept_secret(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove a directory that is not kept."""
        if self._throwaway is not None:
            self._throwaway.remove()


def _kept_secret(directory: Path) -> str:
    """The secret of the last run over the directory, or a new one. Raises CommandError.

    Test mode can empty the database: a directory that no `dev` has begun is refused.
    """
    mark = directory / _MARK
    if (directory / _DATABASE).exists() and not mark.exists():
        raise CommandError(
            f"--keep {directory}: it has another server's data, which dev may empty: name a new directory"
        )
    try:
        return str(orjson.loads(mark.read_bytes())[_SECRET])
    except FileNotFoundError:
        secret = _new_project_secret()
        _write_mark(directory, secret)
        return secret
    except OSError as error:
        raise CommandError(f"--keep {directory}: {error.strerror}: name another directory") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{mark} cannot be read: remove it, and the project has a new secret") from error


def _write_mark(directory: Path, secret: str) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(directory / _MARK, orjson.dumps({_SECRET: secret}))
    except OSError as error:
        raise CommandError(f"--keep {directory}: {error.strerror}: name another directory") from error


def _new_project_secret() -> str:
    return f"{SECRET_PREFIX}demo_{new_secret(os.urandom)}"
