"""A virtual environment with eth-account, with which this project's signing is compared and measured.

The environment `.oracle` is separate, because eth-account pins other releases of shared dependencies.
eth-account signs with coincurve there, as this project does, unless the environment variables in PURE_PYTHON
are set.
"""

from pathlib import Path

from separate_environment import EnvironmentMissingError as OracleMissingError
from separate_environment import environment_python

__all__ = ["PURE_PYTHON", "OracleMissingError", "oracle_python"]

PURE_PYTHON = {"ECC_BACKEND_CLASS": "eth_keys.backends.NativeECCBackend"}


def oracle_python() -> Path:
    """The Python interpreter of the environment, created if necessary. Raises OracleMissingError."""
    return environment_python(".oracle", ("eth-account==0.14.*", "eth-keys[coincurve]"))
