"""Parameters by position (protocol, section D): their number, and values of the usual kinds.

A wrong value is refused with its place, such as `params[1]`.
"""

from typing import Any, TypeAlias

from bridge_server.ethereum.hex_data import HexError, address_of, data_of
from bridge_server.wallet.errors import InvalidParamsError
from bridge_server.wallet.models import Address

Params: TypeAlias = list[Any] | dict[str, Any] | None


def arguments(method: str, params: Params, least: int, *names: str) -> list[Any]:
    """One value for each name. After the `least`, a value may be left out: None."""
    if type(params) is list and len(params) == len(names):
        return params
    if isinstance(params, dict):
        raise InvalidParamsError(f"params must be an array: {method} takes {_listed(names)}.")
    given = params or []
    if not least <= len(given) <= len(names):
        count = "1 value" if len(given) == 1 else f"{len(given)} values"
        raise InvalidParamsError(f"params has {count}, and {method} takes {_listed(names)}.")
    return [*given, *[None] * (len(names) - len(given))]


def address(value: object, place: str) -> Address:
    """An address, in lower case."""
    try:
        return Address(address_of(value))
    except HexError as error:
        raise InvalidParamsError(f"{place} {error}.") from None


def data(value: object, place: str, size: int | None = None) -> bytes:
    """DATA."""
    try:
        return data_of(value, size)
    except HexError as error:
        raise InvalidParamsError(f"{place} {error}.") from None


def text(value: object, place: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise InvalidParamsError(f"{place} must be a string.")
    return value


def nothing(method: str, params: Params) -> None:
    """Refuse parameters of a method that takes none."""
    arguments(method, params, 0)


def _listed(names: tuple[str, ...]) -> str:
    return f"[{', '.join(names)}]"
