"""The configuration file. This module is imported when a file is named: most servers have none."""

import tomllib
from pathlib import Path
from typing import Any


def read_toml(path: Path) -> dict[str, Any]:
    """The values in the file. Raises ValueError, whose message names the file."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: is not TOML: {error}") from error
