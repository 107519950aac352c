"""Parameters by position (protocol, section D): their number, and values of the usual kinds.

A wrong value is refused with its place, such as `params[1]`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar

from bridge_server.ethereum.address import HexError, address_of, data_of, hex_of, quantity, quantity_of
from bridge_server.ethereum.transactions import MAX_CHAIN_ID, STORAGE_KEY_BYTES, AccessList, AccessListEntry
from bridge_server.kernel.errors import Fault
from bridge_server.wallet.models import Address, InvalidParamsError

Params: TypeAlias = list[Any] | dict[str, Any] | None
Value = TypeVar("Value")

PLACE = "params[0]"
"""The place of a transaction object, or of a signed transaction."""

# Were these fields ignored, the wallet would sign another transaction than the requested one.
_NOT_SIGNED = {
    **dict.fromkeys(
        ("blobVersionedHashes", "maxFeePerBlobGas", "blobs", "commitments", "proofs", "sidecars"),
        "belongs to a blob transaction (EIP-4844), which this wallet does not sign",
    ),
    "authorizationList": "hands an account to a contract's code (EIP-7702), which this wallet does not sign",
    **dict.fromkeys(
        ("privateFrom", "privateFor", "privacyGroupId", "restriction"),
        "asks for a private transaction, and what this wallet sends is public",
    ),
    **dict.fromkeys(
        ("feeCurrency", "gatewayFee", "gatewayFeeRecipient", "eip712Meta", "customData", "condition"),
        "belongs to a chain with transactions of its own, which this wallet does not sign",
    ),
}


def arguments(method: str, params: Params, least: int, *names: str) -> list[Any]:
    """One value for each name. After the `least`, a value may be left out: None."""
    if type(params) is list and len(params) == len(names):
        return params
    given = params or []
    if isinstance(params, dict) or not least <= len(given) <= len(names):
        listed = f"[{', '.join(names)}]"
        if isinstance(params, dict):
            raise InvalidParamsError(f"params must be an array: {method} takes {listed}.")
        count = "1 value" if len(given) == 1 else f"{len(given)} values"
        raise InvalidParamsError(f"params has {count}, and {method} takes {listed}.")
    return [*given, *[None] * (len(names) - len(given))]


def checked(read: Callable[[Any], Value], value: object, place: str, hint: str = "") -> Value:
    """The value as `read` returns it. Raises InvalidParamsError, which names the place, for a HexError."""
    try:
        return read(value)
    except HexError as error:
        raise InvalidParamsError(f"{place} {error}.{hint}") from None


def address(value: object, place: str) -> Address:
    """An address, in lower case."""
    return Address(checked(address_of, value, place))


def data(value: object, place: str, size: int | None = None) -> bytes:
    """DATA."""
    return checked(partial(data_of, size=size), value, place)


def text(value: object, place: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise InvalidParamsError(f"{place} must be a string.")
    return value


def nothing(method: str, params: Params) -> None:
    """Refuse parameters of a method that takes none."""
    arguments(method, params, 0)


# The fields of a transaction object, each read strictly. A fault names its place.


class RequestFields:
    """The fields of a transaction object, and the faults found so far. A field that is null is left out."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._faults: list[Fault] = []
        if not _NOT_SIGNED.keys().isdisjoint(values):
            for name in filter(self.has, _NOT_SIGNED):
                self.fault(name, f"{_NOT_SIGNED[name]}.")

    def has(self, name: str) -> bool:
        """Whether the field is there."""
        return self._values.get(name) is not None

    def first(self, *names: str) -> str | None:
        """The first of the names that is there."""
        return next(filter(self.has, names), None)

    def read(self, name: str, read: Callable[[Any], Value]) -> Value | None:
        """The field as `read` returns it; None when it is missing, or faulty: the fault is kept."""
        if not self.has(name):
            return None
        try:
            return read(self._values[name])
        except _InnerError as error:
            self.fault(name + error.place, f"{error}.")
        except HexError as error:
            self.fault(name, f"{error}.")
        return None

    def fault(self, name: str, reason: str) -> None:
        """Keep a fault: a sentence that the field's place begins."""
        self._faults.append(Fault(f"{PLACE}.{name}", reason))

    def are_sound(self, *names: str) -> bool:
        """Whether no fault has been found in these."""
        return not {f"{PLACE}.{name}" for name in names} & {fault.pointer for fault in self._faults}

    def raise_faults(self) -> None:
        """Raise InvalidParamsError that names every fault, if there are any."""
        if self._faults:
            sentences = [f"{fault.pointer} {fault.detail}" for fault in self._faults]
            raise InvalidParamsError(" ".join(sentences), self._faults)


class _InnerError(HexError):
    """A fault inside a field, at `place` in it."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(reason)
        self.place = place


def whole_number(value: Any) -> int:
    """A QUANTITY, or the JSON number that some clients send instead (web3.py, of the type)."""
    return value if type(value) is int else quantity_of(value)


def up_to(maximum: int) -> Callable[[Any], int]:
    """Reads a QUANTITY of at most so much."""

    def read(value: Any) -> int:
        number = quantity_of(value)
        if number > maximum:
            raise HexError(f"must be at most {quantity(maximum)}")
        return number

    return read


def chain_id(value: Any) -> int:
    """A chain id, which is not 0."""
    number = up_to(MAX_CHAIN_ID)(value)
    if not number:
        raise HexError("must not be 0x0, which is no chain")
    return number


def access_list(value: Any) -> AccessList:
    """An access list (EIP-2930)."""
    if not isinstance(value, list):
        raise HexError("must be an array of {address, storageKeys}")
    return tuple(_access_list_entry(f"[{position}]", entry) for position, entry in enumerate(value))


def written_access_list(entries: AccessList) -> list[dict[str, Any]]:
    """An access list as JSON-RPC spells it."""
    return [
        {"address": entry.address, "storageKeys": [hex_of(key) for key in entry.storage_keys]}
        for entry in entries
    ]


def _access_list_entry(place: str, value: Any) -> AccessListEntry:
    if not isinstance(value, dict):
        raise _InnerError(place, "must be an object {address, storageKeys}")
    keys = value.get("storageKeys", [])
    if not isinstance(keys, list):
        raise _InnerError(f"{place}.storageKeys", "must be an array of DATA")
    return AccessListEntry(
        _inner(f"{place}.address", address_of, value.get("address")),
        tuple(
            _inner(f"{place}.storageKeys[{position}]", partial(data_of, size=STORAGE_KEY_BYTES), key)
            for position, key in enumerate(keys)
        ),
    )


def _inner(place: str, read: Callable[[Any], Value], value: Any) -> Value:
    try:
        return read(value)
    except HexError as error:
        raise _InnerError(place, str(error)) from None
