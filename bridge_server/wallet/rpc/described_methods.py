"""The wallet's methods described: one row for each method that `POST /rpc` answers itself.

The rows are in the order in which their examples work on a new wallet with the development accounts: an
account is imported before it is unlocked. A test calls each example.
"""

from bridge_server.version import USER_AGENT
from bridge_server.wallet.rpc.described_examples import (
    ALICE,
    BOB,
    COMPLETE,
    HELLO,
    HELLO_SIGNED,
    IMPORTED,
    IMPORTED_KEY,
    PERMISSION,
    QUEUED,
    SEND,
    SIGNED_TRANSACTION,
    TYPED_DATA,
    TYPED_DATA_SIGNED,
    ZERO_HASH,
)
from bridge_server.wallet.rpc.described_method import DescribedMethod, MethodParameter
from bridge_server.wallet.rpc.described_shapes import (
    NOTHING,
    TEXT,
    TRUTH,
    listed,
    perhaps,
    shape,
)
from bridge_server.wallet.rpc.rpc_errors import (
    CHAIN_DISCONNECTED,
    DISCONNECTED,
    INVALID_STATE,
    RESOURCE_UNAVAILABLE,
    TRANSACTION_REJECTED,
    UNAUTHORIZED,
    UNRECOGNIZED_CHAIN,
    USER_REJECTED,
)

_SIGNING = (UNAUTHORIZED, USER_REJECTED, RESOURCE_UNAVAILABLE)
_SENDING = (*_SIGNING, INVALID_STATE, TRANSACTION_REJECTED, DISCONNECTED, CHAIN_DISCONNECTED)
_CHAIN = (DISCONNECTED, CHAIN_DISCONNECTED)


_ACCOUNT = MethodParameter("account", shape("Address"), "An account of the wallet.")
_MESSAGE = MethodParameter("message", shape("Data"), "The bytes of the message; of a text its UTF-8.")
_PASSPHRASE = MethodParameter("passphrase", TEXT, "The passphrase of the account's key file.")
_TRANSACTION = MethodParameter("transaction", shape("Transaction"))
_WHICH = MethodParameter(
    "which",
    {"anyOf": [TEXT, shape("Transaction"), NOTHING]},
    "An account, an id, a hash, a signed transaction, or the parameter of the send.",
    required=False,
)
_NAMED_CHAIN = MethodParameter("chain", shape("Chain"), "Members beside chainId are ignored.")
_SEE_ACCOUNTS = MethodParameter("permission", shape("PermissionRequest"))


def _typed_data(name: str, summary: str) -> DescribedMethod:
    document = MethodParameter(
        "typedData", {"anyOf": [shape("TypedData"), TEXT]}, "The typed data, or its JSON as a string."
    )
    return DescribedMethod(
        name=name, tag="sign", summary=summary, parameters=(_ACCOUNT, document),
        result_name="signature", result=shape("Signature"), errors=(*_SIGNING, *_CHAIN),
        example=[ALICE, TYPED_DATA], example_result=TYPED_DATA_SIGNED,
    )  # fmt: skip


def _accounts(name: str, summary: str) -> DescribedMethod:
    return DescribedMethod(
        name=name, tag="accounts", summary=summary, result_name="accounts", result=listed(shape("Address")),
        example_result=[ALICE, BOB], varies=True,
    )  # fmt: skip


def _to_chain(name: str, summary: str) -> DescribedMethod:
    return DescribedMethod(
        name=name, tag="chain", summary=summary, parameters=(_NAMED_CHAIN,), result_name="nothing",
        result=NOTHING, errors=(UNRECOGNIZED_CHAIN, *_CHAIN), example=[{"chainId": "0x7a69"}],
        example_result=None,
    )  # fmt: skip


METHODS: tuple[DescribedMethod, ...] = (
    DescribedMethod(
        name="personal_sign", tag="sign",
        summary="Sign a message behind its prefix (EIP-191). The message comes first.",
        parameters=(
            _MESSAGE,
            _ACCOUNT,
            MethodParameter("passphrase", TEXT, "Opens a locked account.", required=False),
        ),
        result_name="signature", result=shape("Signature"), errors=_SIGNING,
        example=[HELLO, ALICE], example_result=HELLO_SIGNED,
    ),
    DescribedMethod(
        name="eth_sign", tag="sign",
        summary="Sign a message behind its prefix (EIP-191). The account comes first.",
        parameters=(_ACCOUNT, _MESSAGE), result_name="signature", result=shape("Signature"),
        errors=_SIGNING, example=[ALICE, HELLO], example_result=HELLO_SIGNED,
    ),
    _typed_data("eth_signTypedData", "Sign typed data (EIP-712)."),
    _typed_data("eth_signTypedData_v3", "Another name of eth_signTypedData."),
    _typed_data("eth_signTypedData_v4", "Another name of eth_signTypedData."),
    DescribedMethod(
        name="personal_ecRecover", tag="sign", summary="Find the account that has signed a message.",
        parameters=(_MESSAGE, MethodParameter("signature", shape("Data"), "65 bytes.")),
        result_name="account", result=shape("Address"),
        example=[HELLO, HELLO_SIGNED], example_result=ALICE,
    ),
    DescribedMethod(
        name="eth_signTransaction", tag="transactions",
        summary="Sign a transaction without sending it. Its nonce is not reserved.",
        parameters=(_TRANSACTION,), result_name="signed transaction", result=shape("Data"), errors=_SENDING,
        example=[COMPLETE], example_result=SIGNED_TRANSACTION,
    ),
    DescribedMethod(
        name="eth_sendTransaction", tag="transactions",
        summary="Sign, store and send a transaction. The zero hash means that it is stored, and sent as "
        "soon as the node can be reached: do not send it again, ask wallet_getQueuedTransaction.",
        parameters=(_TRANSACTION,), result_name="hash", result=shape("Hash"), errors=_SENDING,
        example=[SEND], example_result=ZERO_HASH, varies=True,
    ),
    DescribedMethod(
        name="eth_sendRawTransaction", tag="transactions",
        summary="Store and send a transaction that is signed. The answer is as of eth_sendTransaction.",
        parameters=(MethodParameter("signed", shape("Data"), "The signed transaction."),),
        result_name="hash", result=shape("Hash"), errors=_SENDING,
        example=[SIGNED_TRANSACTION], example_result=ZERO_HASH, varies=True,
    ),
    DescribedMethod(
        name="wallet_getQueuedTransaction", tag="transactions",
        summary="The state and hash of the newest transaction that matches, or null.",
        parameters=(_WHICH,), result_name="transaction", result=perhaps(shape("QueuedTransaction")),
        example=[SEND], example_result=QUEUED, varies=True,
    ),
    DescribedMethod(
        name="wallet_getQueuedTransactions", tag="transactions",
        summary="Transactions that match, oldest first; of an account those that the node does not have yet.",
        parameters=(_WHICH,), result_name="transactions", result=listed(shape("QueuedTransaction")),
        example=[ALICE], example_result=[QUEUED], varies=True,
    ),
    _accounts("eth_accounts", "The accounts of the wallet."),
    _accounts("eth_requestAccounts", "Another name of eth_accounts (EIP-1102)."),
    _accounts("personal_listAccounts", "Another name of eth_accounts."),
    DescribedMethod(
        name="personal_newAccount", tag="accounts",
        summary="Make an account with a key file; it starts locked.",
        parameters=(_PASSPHRASE,), result_name="account", result=shape("Address"), errors=(UNAUTHORIZED,),
        example=["open sesame"], example_result=IMPORTED, varies=True,
    ),
    DescribedMethod(
        name="personal_importRawKey", tag="accounts",
        summary="Make a key file of a private key; the account starts locked.",
        parameters=(MethodParameter("key", TEXT, "32 bytes in hexadecimal; 0x may be missing."), _PASSPHRASE),
        result_name="account", result=shape("Address"), errors=(INVALID_STATE,),
        example=[IMPORTED_KEY, "open sesame"], example_result=IMPORTED,
    ),
    DescribedMethod(
        name="personal_unlockAccount", tag="accounts", summary="Open an account's key for a time.",
        parameters=(
            _ACCOUNT,
            _PASSPHRASE,
            MethodParameter(
                "seconds", perhaps({"type": "integer", "minimum": 0}),
                "300 when it is left out; 0 is until the server stops.", required=False,
            ),
        ),
        result_name="unlocked", result=TRUTH, errors=(UNAUTHORIZED, INVALID_STATE),
        example=[IMPORTED, "open sesame", 60], example_result=True,
    ),
    DescribedMethod(
        name="personal_lockAccount", tag="accounts", summary="Close an account's key.",
        parameters=(_ACCOUNT,), result_name="locked", result=TRUTH, errors=(UNAUTHORIZED,),
        example=[IMPORTED], example_result=True,
    ),
    DescribedMethod(
        name="eth_chainId", tag="chain", summary="The wallet's chain.", result_name="chain",
        result=shape("Quantity"), errors=_CHAIN, example_result="0x7a69",
    ),
    DescribedMethod(
        name="net_version", tag="chain",
        summary="The wallet's chain, in decimal digits.", result_name="chain",
        result={"type": "string", "pattern": "^[0-9]+$"}, errors=_CHAIN, example_result="31337",
    ),
    _to_chain("wallet_switchEthereumChain", "Null for the wallet's chain, else the error 4902 (EIP-3326)."),
    _to_chain("wallet_addEthereumChain", "Null for the wallet's chain, else the error 4902 (EIP-3085)."),
    DescribedMethod(
        name="web3_clientVersion", tag="server",
        summary="Name and version of the server.", result_name="version",
        result=TEXT, example_result=USER_AGENT, varies=True,
    ),
    DescribedMethod(
        name="wallet_getPermissions", tag="accounts",
        summary="The permission to see the accounts, which every caller has (EIP-2255).",
        result_name="permissions", result=listed(shape("Permission")),
        example_result=[PERMISSION], varies=True,
    ),
    DescribedMethod(
        name="wallet_requestPermissions", tag="accounts",
        summary="Answers as wallet_getPermissions, for the permission to see the accounts.",
        parameters=(_SEE_ACCOUNTS,), result_name="permissions", result=listed(shape("Permission")),
        example=[{"eth_accounts": {}}], example_result=[PERMISSION], varies=True,
    ),
    DescribedMethod(
        name="wallet_revokePermissions", tag="accounts",
        summary="Changes nothing: dapps call it when they disconnect.",
        parameters=(_SEE_ACCOUNTS,), result_name="nothing", result=NOTHING,
        example=[{"eth_accounts": {}}], example_result=None,
    ),
    DescribedMethod(
        name="rpc.discover", tag="server", summary="This document (OpenRPC).", result_name="document",
        result={"type": "object", "required": ["openrpc", "info", "methods"]},
        example_result={"openrpc": "1.3.2", "info": {"title": "Bridge Server: wallet"}, "methods": []},
        varies=True,
    ),
)  # fmt: skip
"""Every method, in the order of the document."""
