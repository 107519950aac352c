"""Virtual environments beside `.venv`, for tools that pin other releases of shared dependencies.

Each is created at its first use, in a folder of the checkout that git ignores. The pip of `.venv` fills it: a
pip of its own would take longer to unpack than all the rest.
"""

import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


class EnvironmentMissingError(Exception):
    """The environment could not be created; the text says why."""


def environment_python(folder: str, requirements: Sequence[str]) -> Path:
    """The Python interpreter of the environment in this folder, with these requirements installed.

    Raises EnvironmentMissingError.
    """
    home, wanted = _ROOT / folder, " ".join(requirements)
    python, installed = home / "bin" / "python", home / "installed"
    if not installed.exists() or installed.read_text("utf-8") != wanted:
        try:
            venv.create(home, clear=True)
            _install(python, requirements)
            installed.write_text(wanted, "utf-8")
        except (OSError, subprocess.CalledProcessError) as error:
            raise EnvironmentMissingError(f"no environment with {wanted}: {_reason(error)}") from error
    return python


def _install(python: Path, requirements: Sequence[str]) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    options = ["--quiet", "--disable-pip-version-check", "--no-compile", *requirements]
    subprocess.run([*pip, "install", *options], check=True, capture_output=True, text=True)


def _reason(error: OSError | subprocess.CalledProcessError) -> str:
    said = getattr(error, "stderr", None) or getattr(error, "output", None) or str(error)
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    return text.strip().splitlines()[-1]
