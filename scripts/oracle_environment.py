"""A virtual environment with eth-account, with which this project's signing is compared and measured.

The environment `.oracle` is separate, because eth-account pins other releases of shared dependencies. It is
created at its first use. eth-account signs with coincurve there, as this project does, unless the environment
variables in PURE_PYTHON are set.
"""

import subprocess
import venv
from pathlib import Path

PURE_PYTHON = {"ECC_BACKEND_CLASS": "eth_keys.backends.NativeECCBackend"}

_REQUIREMENTS = ("eth-account==0.14.*", "eth-keys[coincurve]")
_FOLDER = Path(__file__).resolve().parent.parent / ".oracle"


class OracleMissingError(Exception):
    """The environment could not be created; the text says why."""


def oracle_python() -> Path:
    """The Python interpreter of the environment, created if necessary. Raises OracleMissingError."""
    python, installed = _FOLDER / "bin" / "python", _FOLDER / "installed"
    wanted = " ".join(_REQUIREMENTS)
    if not installed.exists() or installed.read_text("utf-8") != wanted:
        try:
            venv.create(_FOLDER, clear=True, with_pip=True)
            _install(python)
            installed.write_text(wanted, "utf-8")
        except (OSError, subprocess.CalledProcessError) as error:
            raise OracleMissingError(f"no environment with {wanted}: {_reason(error)}") from error
    return python


def _install(python: Path) -> None:
    options = ["--quiet", "--disable-pip-version-check", *_REQUIREMENTS]
    subprocess.run([python, "-m", "pip", "install", *options], check=True, capture_output=True, text=True)


def _reason(error: OSError | subprocess.CalledProcessError) -> str:
    said = getattr(error, "stderr", None) or getattr(error, "output", None) or str(error)
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    return text.strip().splitlines()[-1]
