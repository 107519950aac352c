"""Checks of settings whose values are read from files or parsed: the fault is reported with the name."""

from collections.abc import Callable
from pathlib import Path

from pydantic import SecretStr


def text_of(file: Path | None) -> str:
    """The text of the file; nothing when the setting is not set. Raises ValueError."""
    if file is None:
        return ""
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is no text in UTF-8") from error


def secret_of(setting: SecretStr | None) -> str | None:
    """The secret in plain text; None when the setting is not set."""
    return None if setting is None else setting.get_secret_value()


def fault_of(name: str, check: Callable[[], object]) -> str | None:
    """The message of the ValueError that the check raises, after the name of the setting."""
    try:
        check()
    except ValueError as error:
        return f"{name}: {error}"
    return None


def require_current(name: str, current: SecretStr | None, previous: SecretStr | None) -> None:
    """Raise ValueError if only the value of before is set: nothing would ask for it."""
    if previous is not None and current is None:
        raise ValueError(f"{name}_previous: works beside {name} only: set {name} too, or leave both out")
