"""Every kind of failure has its JSON-RPC code."""

from collections.abc import Iterator

import bridge_server.assembly.application  # every room's failures, by importing all of them
from bridge_server.kernel.errors import (
    BridgeError,
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    LimitError,
    NotFoundError,
    UnavailableError,
)
from bridge_server.wallet.models import (
    InvalidParamsError,
    LockedError,
    MethodNotFoundError,
    NoChainError,
    NodeError,
    NoNodeError,
    SignatureRejectedError,
    TransactionRefusedError,
    UnknownAccountError,
    UnrecognizedChainError,
    WrongChainError,
    WrongPassphraseError,
)
from bridge_server.wallet.rpc.wire import CODE_OF_KIND, rpc_error_of
from tests.support.rows import each_row

assert bridge_server.assembly.application

STANDARD = {-32700, -32600, -32601, -32602, -32603}
OF_ETHEREUM = {-32000, -32001, -32002, -32003, -32005, 4001, 4100, 4900, 4901, 4902}


def kinds(root: type[BridgeError] = BridgeError) -> Iterator[type[BridgeError]]:
    """Every kind of failure that there is."""
    for kind in root.__subclasses__():
        yield kind
        yield from kinds(kind)


@each_row("kind", list(kinds()))
def test_every_kind_has_a_code(kind: type[BridgeError]) -> None:
    if kind is NodeError:
        return  # has the node's

    code = next(CODE_OF_KIND[each] for each in kind.__mro__ if each in CODE_OF_KIND)

    assert code in STANDARD | OF_ETHEREUM


@each_row(
    ("error", "code"),
    [
        (InvalidInputError("x"), -32602),
        (InvalidParamsError("x"), -32602),
        (MethodNotFoundError("x"), -32601),
        (SignatureRejectedError("x"), 4001),
        (ForbiddenError("x"), 4100),
        (LockedError("0x00"), 4100),
        (UnknownAccountError("0x00"), 4100),
        (WrongPassphraseError("0x00"), 4100),
        (NoNodeError("x"), 4900),
        (NoChainError(), 4900),
        (WrongChainError("x"), 4901),
        (UnrecognizedChainError(1, 2), 4902),
        (ConflictError("x"), -32000),
        (NotFoundError("x"), -32001),
        (UnavailableError("x"), -32002),
        (TransactionRefusedError("x"), -32003),
        (LimitError("x", 1), -32005),
    ],
)
def test_a_failure_becomes_its_code_and_its_sentence(error: BridgeError, code: int) -> None:
    told = rpc_error_of(error, "m", "id")

    assert (told.code, told.message, told.has_data) == (code, error.detail, False)


def test_an_error_of_the_node_stays_unchanged() -> None:
    told = rpc_error_of(NodeError(3, "execution reverted", "0x08c379a0", has_data=True), "m", "id")

    assert (told.code, told.message, told.data, told.has_data) == (
        3,
        "execution reverted",
        "0x08c379a0",
        True,
    )


def test_null_as_error_data_is_kept() -> None:
    assert rpc_error_of(NodeError(3, "x", None, has_data=True), "m", "id").has_data
    assert not rpc_error_of(NodeError(3, "x"), "m", "id").has_data


def test_a_refused_transaction_keeps_what_the_node_added() -> None:
    told = rpc_error_of(TransactionRefusedError("nonce too low", {"a": 1}), "m", "id")

    assert (told.data, told.has_data) == ({"a": 1}, True)


def test_an_unexpected_exception_is_not_described_to_the_client() -> None:
    told = rpc_error_of(KeyError("secret"), "m", "id")

    assert told.code == -32603
    assert "secret" not in told.message
