"""The data to sign, in words for a person: all of it, its meaning, and nothing hidden."""

import json
import unicodedata
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from bridge_server.ethereum.keccak import keccak256
from bridge_server.wallet.explaining import explain
from bridge_server.wallet.visible_text import folded, visible
from tests.ethereum.vectors import FIELDS, published_raw, signed, signed_for_every_chain, vectors
from tests.support.rows import each_row

ALICE = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
SPENDER = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"
TOKEN = "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB"
UNLIMITED = 2**256 - 1
GWEI, ETHER = 10**9, 10**18

TRANSFER = {
    "from": ALICE.lower(), "to": SPENDER.lower(), "value": hex(15 * 10**17), "gas": "0x5208",
    "gasPrice": hex(20 * GWEI), "nonce": "0x9", "chainId": "0x1",
}  # fmt: skip
FEE_MARKET = {"gasPrice": None, "maxFeePerGas": hex(30 * GWEI), "maxPriorityFeePerGas": hex(15 * 10**8)}
ACCESS = {"address": TOKEN, "storageKeys": ["0x" + "00" * 32]}
NO_COST = "what it can cost is not known: it needs a value, gas and one price of gas"
LEGACY = vectors("transactions.json")[0]
PUBLISHED = {
    vector["name"]: published_raw(vector["transaction"]) for vector in vectors("published_transactions.json")
}
TYPED_DATA = {vector["name"]: vector for vector in vectors("typed_data.json")}
MAIL = TYPED_DATA["the standard's Mail"]["typed_data"]
PERMIT = TYPED_DATA["EIP-2612 permit, unlimited"]["typed_data"]
METHODS = [
    *("personal_sign", "eth_signTypedData_v4", "eth_sendTransaction", "eth_sendRawTransaction", "eth_new")
]
"""One of each kind, and one that is not known."""
SIGN_IN = (
    f"example.org wants you to sign in with your Ethereum account:\n{ALICE}\n\nI accept.\n\n"
    "URI: https://example.org/login\nVersion: 1\nChain ID: 1\nNonce: 32891756\n"
    "Issued At: 2021-09-30T16:25:24Z\nExpiration Time: 2021-10-30T16:25:24Z\n"
    "Not Before: 2021-09-30T16:25:24Z\nResources:\n- https://example.org/a"
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def explained(method: str, subject: Any, account: str | None = None) -> list[tuple[str, str]]:
    """Labels and texts, with lines that were folded put together again."""
    lines: list[tuple[str, str]] = []
    for label, text in explain(method, json.dumps(subject).encode(), account):
        if not label and text.startswith("… "):
            lines[-1] = (lines[-1][0], lines[-1][1] + text.removeprefix("… "))
        else:
            lines.append((label, text))
    return lines


def texts(lines: list[tuple[str, str]], label: str) -> list[str]:
    return [text for found, text in lines if found == label]


def call(signature: str, *words: int | str) -> dict[str, str]:
    """A transaction that calls a token's function."""
    numbers = (int(word, 16) if isinstance(word, str) else word for word in words)
    data = keccak256(signature.encode())[:4] + b"".join(number.to_bytes(32) for number in numbers)
    return {**TRANSFER, "to": TOKEN, "value": "0x0", "data": f"0x{data.hex()}"}


def message(content: str | bytes) -> str:
    return f"0x{(content.encode() if isinstance(content, str) else content).hex()}"


def typed(primary: str, content: dict[str, Any], domain: dict[str, Any], **types: str) -> dict[str, Any]:
    """Typed data whose types are spelled as in Solidity."""
    spelled = {
        name: [{"name": each.split()[1], "type": each.split()[0]} for each in members.split(",") if each]
        for name, members in types.items()
    }
    return {"types": spelled, "primaryType": primary, "domain": domain, "message": content}


def test_a_transfer_of_ether_is_shown_with_its_greatest_cost() -> None:
    assert explained("eth_sendTransaction", TRANSFER) == [
        ("does", "send ether"),
        ("from", ALICE),
        ("to", SPENDER),
        ("value", "1.5 ether (1500000000000000000 wei)"),
        ("fee", "at most 0.00042 ether (420000000000000 wei): 21000 gas at 20 gwei"),
        ("in all", "at most 1.50042 ether (1500420000000000000 wei)"),
        ("chain", "1"),
        ("nonce", "9"),
    ]


@each_row(("changes", "label", "expected"), [
    ({"value": "0x0"}, "value", ["0 ether"]),
    ({"value": "0x1"}, "value", ["0.000000000000000001 ether (1 wei)"]),
    ({"value": hex(ETHER + 10)}, "value", ["1.00000000000000001 ether (1000000000000000010 wei)"]),
    ({"to": None, "data": "0x6001"}, "does", ["create a contract"]),
    ({"to": None, "data": "0x6001"}, "data", ["2 bytes: 0x6001"]),
    ({"input": "0xdeadbeef01"}, "does", ["call a function that is not known here: 0xdeadbeef"]),
    ({"input": "0xdeadbeef", "data": None}, "input", ["4 bytes: 0xdeadbeef"]),
    ({"data": "0x" + "ab" * 5_000}, "data", ["5000 bytes, of which the first 1024: 0x" + "ab" * 1024]),
    ({"surprise\u202e": {"a": "\x1b"}}, "also", ['surprise<U+202E>: {"a": "\\u001b"}']),
    ({"accessList": [ACCESS, ACCESS]}, "access list", [json.dumps(ACCESS)] * 2),
    ({"data": "0x01", "input": "0x02"}, "WARNING", ["data and input differ"]),
    ({"maxFeePerGas": "0x1"}, "gas price", ['"0x4a817c800"']),
    *(({name: None}, "WARNING", [NO_COST]) for name in ("gas", "gasPrice")),
    ({"maxFeePerGas": "0x1"}, "WARNING", [NO_COST]),
    (FEE_MARKET, "fee", ["at most 0.00063 ether (630000000000000 wei): 21000 gas at 30 gwei"]),
    (FEE_MARKET, "tip", ["1.5 gwei of it"]),
])  # fmt: skip
def test_members_of_a_transaction_are_shown(changes: dict[str, Any], label: str, expected: list[str]) -> None:
    changed = {name: value for name, value in {**TRANSFER, **changes}.items() if value is not None}
    for method in ("eth_sendTransaction", "eth_signTransaction"):
        assert texts(explained(method, changed), label) == expected


@each_row("name", ["from", "to", "value", "nonce", "chainId", "data"])
@each_row("value", ["strange", {"a": 1}])
def test_a_member_of_another_kind_is_shown_as_it_came(name: str, value: Any) -> None:
    lines = explained("eth_sendTransaction", {**TRANSFER, name: value})
    assert any(json.dumps(value) in text for _, text in lines)


@each_row(("raw", "label", "expected"), [
    (bytes.fromhex(LEGACY["raw"][2:]), "hash", LEGACY["hash"]),
    (bytes.fromhex(LEGACY["raw"][2:]), "chain", "1"),
    (PUBLISHED["fee market"], "tip", "0.0000005 gwei of it"),
    (PUBLISHED["blobs"], "blob fee", "besides, at most 0.000000017179869184 ether (17179869184 wei)"),
    (PUBLISHED["blobs"], "blob", "0x015a4cab4911426699ed34483de6640cf55a568afc5c5edffdcbd8bcd4452f68"),
    (
        PUBLISHED["set code"],
        "authorizes",
        "0x58f8fe237b593C19546e1e758a2544561d04bfe0 to be the code of an account "
        "(nonce 0, chain 3503995874084926)",
    ),
    (signed(1, FIELDS[1]), "access list", json.dumps({**ACCESS, "address": "0x" + "35" * 20})),
    (signed_for_every_chain(), "chain", "EVERY chain: it is not bound to one"),
    (
        signed(4, FIELDS[4]), "authorizes",
        "0x" + "35" * 20 + " to be the code of an account (nonce 7, EVERY chain)",
    ),
    (b"\x02\xc0", "WARNING", "this is not understood: the transaction must have 12 items, and has 0"),
])  # fmt: skip
def test_a_signed_transaction_is_shown(raw: bytes, label: str, expected: str) -> None:
    assert texts(explained("eth_sendRawTransaction", f"0x{raw.hex()}"), label) == [expected]


def test_a_transfer_of_tokens_is_shown_with_its_arguments() -> None:
    lines = explained("eth_sendTransaction", call("transfer(address,uint256)", SPENDER, 1_000))
    assert lines[:3] == [
        ("does", "send a token (ERC-20): transfer(address,uint256)"),
        ("", f"  to: {SPENDER}"),
        ("", "  amount: 1000"),
    ]
    assert texts(lines, "WARNING") == []


@each_row(("amount", "warning"), [
    *((amount, "UNLIMITED:") for amount in (2**96 - 1, 2**128, UNLIMITED)),
    *((amount, "the spender can take this token from") for amount in (1, 2**96 - 2, 2**96, 2**128 - 1)),
    (0, None),
])  # fmt: skip
def test_an_allowance_is_a_warning_and_one_without_end_is_called_so(amount: int, warning: str | None) -> None:
    lines = explained("eth_sendTransaction", call("approve(address,uint256)", SPENDER, amount))
    assert texts(lines, "")[:2] == [f"  spender: {SPENDER}", f"  amount: {amount}"]
    assert [text[: len(warning or "")] for text in texts(lines, "WARNING")] == ([warning] if warning else [])


@each_row(("signature", "words", "standard", "shown"), [
    ("transferFrom(address,address,uint256)", (ALICE, SPENDER, 7), "ERC-20", f"  to: {SPENDER}"),
    ("safeTransferFrom(address,address,uint256)", (ALICE, SPENDER, 7), "ERC-721", f"  to: {SPENDER}"),
    ("safeTransferFrom(address,address,uint256,bytes)", (ALICE, SPENDER, 7, 128, 0), "ERC-721", "  token: 7"),
    ("increaseAllowance(address,uint256)", (SPENDER, 7), "ERC-20", f"  spender: {SPENDER}"),
    ("decreaseAllowance(address,uint256)", (SPENDER, 7), "ERC-20", f"  spender: {SPENDER}"),
    ("setApprovalForAll(address,bool)", (SPENDER, 0), "ERC-721", "  approved: false"),
    ("setApprovalForAll(address,bool)", (SPENDER, 1), "EVERY token", "  approved: true"),
    (
        "permit(address,address,uint256,uint256,uint8,bytes32,bytes32)",
        (ALICE, SPENDER, UNLIMITED, 1_700_000_000, 27, 1, 2), "UNLIMITED",
        "  deadline: 1700000000 (2023-11-14T22:13:20.000Z)",
    ),
    (
        "transfer(address,uint256)", (SPENDER, 1, 5), "ERC-20",
        "  and: 32 bytes more, which the call does not need",
    ),
])  # fmt: skip
def test_calls_of_tokens_are_explained(
    signature: str, words: tuple[int | str, ...], standard: str, shown: str
) -> None:
    lines = explained("eth_sendTransaction", call(signature, *words))
    assert lines[0][1].endswith(f": {signature}")
    assert standard in " ".join([lines[0][1], *texts(lines, "WARNING")])
    assert shown in texts(lines, "")


@each_row(("transaction", "fault"), [
    (call("transfer(address,uint256)", SPENDER), "has 32 bytes of arguments, and needs 64"),
    (call("transfer(address,uint256)", 2**160, 1), "to is no address: 0x0000"),
    (call("setApprovalForAll(address,bool)", SPENDER, 2), "approved is neither true nor false"),
])  # fmt: skip
def test_a_call_that_cannot_be_read_is_a_warning(transaction: dict[str, str], fault: str) -> None:
    [warning] = texts(explained("eth_sendTransaction", transaction), "WARNING")
    assert warning.startswith("the call cannot be read:")
    assert fault in warning


def test_typed_data_is_shown_as_a_tree_of_every_member() -> None:
    assert explained("eth_signTypedData_v4", MAIL) == [
        ("does", "sign Mail"),
        ("WARNING", "it is for chain 1, and which chain the wallet is on was not known"),
        ("domain", 'name (string): "Ether Mail"'),
        ("", 'version (string): "1"'),
        ("", "chainId (uint256): 1"),
        ("", "verifyingContract (address): 0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC"),
        ("message", "from (Person)"),
        ("", '  name (string): "Cow"'),
        ("", "  wallet (address): 0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"),
        ("", "to (Person)"),
        ("", '  name (string): "Bob"'),
        ("", "  wallet (address): 0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB"),
        ("", 'contents (string): "Hello, Bob!"'),
        ("EIP-712", TYPED_DATA["the standard's Mail"]["digest"]),
    ]


KINDS: list[tuple[str, Any, str]] = [
    ("address", SPENDER.lower(), SPENDER), ("bytes", "0x", "0x"), ("bytes4", "0x000000ff", "0x000000ff"),
    ("uint256", "0xff", "255"), ("int8", "-007", "-7"), ("bool", False, "false"),
    ("string", "0xff", '"0xff"'), ("uint256", 2**200, str(2**200)),
]  # fmt: skip
FAKE = 'x"\nwallet (address): \u202e0xbad\x1b[1A'


@each_row(("typed_data", "place", "line"), [
    ({**MAIL, "walletChainId": "0x1"}, 1, ("chain", "1, which is the wallet's")),
    (
        {**MAIL, "walletChainId": "0x7a69"}, 1,
        ("WARNING", "it is for chain 1, and the wallet is on chain 31337"),
    ),
    (
        {**MAIL, "walletChainId": 1}, 1,
        ("WARNING", "it is for chain 1, and which chain the wallet is on was not known"),
    ),
    (
        {**MAIL, "types": {name: MAIL["types"][name] for name in ("Mail", "Person")}}, 2,
        ("domain", 'name (string): "Ether Mail"'),
    ),
    *(
        (
            typed("Holder", {"held": value}, {}, Holder=f"{kind} held"), -2,
            ("message", f"held ({kind}): {text}"),
        )
        for kind, value, text in KINDS
    ),
    (PERMIT, -2, ("", "deadline (uint256): 1700000000 (2023-11-14T22:13:20.000Z)")),
    (
        {**MAIL, "message": {**MAIL["message"], "contents": FAKE}}, -2,
        ("", 'contents (string): "x\\"\\nwallet (address): <U+202E>0xbad\\u001b[1A"'),
    ),
])  # fmt: skip
def test_chains_domains_and_values_of_typed_data(
    typed_data: dict[str, Any], place: int, line: tuple[str, str]
) -> None:
    assert explained("eth_signTypedData_v4", typed_data)[place] == line


DAI = {
    allowed: typed(
        "Permit",
        {"spender": SPENDER, "allowed": allowed},
        {"verifyingContract": TOKEN},
        EIP712Domain="address verifyingContract",
        Permit="address spender,bool allowed",
    )
    for allowed in (True, False)
}
PERMIT_TRANSFER = typed(
    "PermitTransferFrom",
    {"permitted": {"token": TOKEN, "amount": "0x3e8"}, "spender": SPENDER},
    {"name": "Permit2"},
    PermitTransferFrom="TokenPermissions permitted,address spender",
    TokenPermissions="address token,uint256 amount",
)


@each_row(("typed_data", "expected"), [
    (PERMIT, ["0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB can take UNLIMITED of the token 0xA0b"]),
    (
        TYPED_DATA["Permit2 batch"]["typed_data"],
        ["can take UNLIMITED of the token 0xA0b8", "can take 0 of the token 0xCcCC"],
    ),
    (PERMIT_TRANSFER, [f"the holder of the signature: {SPENDER} can take 1000 of the token {TOKEN}"]),
    (DAI[True], [f"{SPENDER} can take UNLIMITED of the token {TOKEN}"]),
    (DAI[False], [f"{SPENDER} can take no more of the token {TOKEN}"]),
])  # fmt: skip
def test_a_permit_is_a_warning_of_what_can_be_taken(typed_data: dict[str, Any], expected: list[str]) -> None:
    warnings = texts(explained("eth_signTypedData_v4", {**typed_data, "walletChainId": "0x1"}), "WARNING")
    assert len(warnings) == len(expected)
    assert [part for part, warning in zip(expected, warnings, strict=True) if part not in warning] == []


def test_typed_data_for_every_chain_names_no_chain() -> None:
    typed_data = {**TYPED_DATA["domain of a name"]["typed_data"], "walletChainId": "0x1"}
    labels = [label for label, _ in explained("eth_signTypedData_v4", typed_data)]
    assert labels == ["does", "domain", "message", "EIP-712"]


def test_unsigned_members_are_not_shown_and_hide_no_signed_ones() -> None:
    more = TYPED_DATA["members that no type names"]["typed_data"]
    assert explained("eth_signTypedData_v4", more) == explained("eth_signTypedData_v4", MAIL)
    members: list[dict[str, Any]] = [{"amount": "0"}, {"allowed": False}, {"details": []}, {"token": TOKEN}]
    for member in members:
        changed = {**PERMIT, "message": {**member, **PERMIT["message"]}}
        assert explained("eth_signTypedData_v4", changed) == explained("eth_signTypedData_v4", PERMIT), member


def test_a_subject_that_is_not_understood_is_shown_as_it_came() -> None:
    lines = explained("eth_signTypedData_v4", {"types": {}, "evil": "\u202e"})
    assert texts(lines, "WARNING")[0].startswith("this is not understood: primaryType is missing")
    assert '  "evil": "<U+202E>"' in texts(lines, "")


def test_what_is_too_long_says_that_it_is_cut() -> None:
    typed_data = typed("List", {"items": [7] * 5_000}, {}, EIP712Domain="", List="uint8[] items")
    lines = explained("eth_signTypedData_v4", typed_data)
    of_message = explain("personal_sign", json.dumps(message("x" * 500_000)).encode())
    assert (len(lines), len(of_message)) == (2_001, 2_001)
    assert lines[-1] == ("WARNING", "3004 more lines are not shown here: --json has everything")
    assert of_message[-1][0] == "WARNING"


@each_row("vector", TYPED_DATA.values(), ids=TYPED_DATA.keys())
def test_all_typed_data_that_can_be_signed_can_be_explained(vector: dict[str, Any]) -> None:
    typed_data = vector["typed_data"]
    lines = explained("eth_signTypedData_v4", typed_data)
    assert lines[0] == ("does", f"sign {typed_data['primaryType']}")
    assert lines[-1] == ("EIP-712", vector["digest"])
    text = json.dumps(typed_data)
    assert explained("eth_signTypedData", text) == explained("eth_signTypedData", typed_data)


@each_row("subject", [message("Hello, ♥"), {"message": message("Hello, ♥")}])
def test_a_message_is_shown_with_its_bytes_and_hash(subject: Any) -> None:
    assert explained("personal_sign", subject) == [
        ("text", "Hello, ♥"),
        ("bytes", "10 bytes: 0x48656c6c6f2c20e299a5"),
        ("hash", "0x" + keccak256(b"\x19Ethereum Signed Message:\n10Hello, \xe2\x99\xa5").hex()),
    ]


NOT_TEXT = "the message is not text; it may be the hash of something that is not shown"


@each_row(("content", "first_lines"), [
    (
        "one\nWARNING  all is well\x1b[2A\n",
        [("text", "one"), ("", "WARNING  all is well<U+001B>[2A"), ("", "")],
    ),
    ("", [("text", "(empty)"), ("bytes", "none")]),
    (b"\xff\xfe", [("WARNING", "the message is not text (UTF-8)"), ("bytes", "2 bytes: 0xfffe")]),
    (b"\xff" * 32, [("WARNING", NOT_TEXT)]),
])  # fmt: skip
def test_lines_of_a_message_never_become_labels(content: str | bytes, first_lines: list[Any]) -> None:
    assert explained("eth_sign", message(content))[: len(first_lines)] == first_lines


def test_a_sign_in_message_is_shown_with_what_it_allows() -> None:
    lines = explained("personal_sign", message(SIGN_IN))

    assert lines[:8] == [
        ("does", "sign in to example.org"),
        ("as", ALICE),
        ("for", "https://example.org/login"),
        ("chain", "1"),
        ("issued", "2021-09-30T16:25:24.000Z"),
        ("until", "2021-10-30T16:25:24.000Z"),
        ("not before", "2021-09-30T16:25:24.000Z"),
        ("resource", "https://example.org/a"),
    ]
    assert ("", "I accept.") in lines
    without_times = "\n".join(line for line in SIGN_IN.split("\n") if not line.startswith(("Exp", "Not")))
    assert explained("personal_sign", message(without_times))[5:7] == [("until", "no end"), lines[7]]


@each_row(("text", "account", "warnings"), [
    (SIGN_IN, ALICE.lower(), []), (SIGN_IN, None, []),
    (SIGN_IN, SPENDER, [f"it signs in {ALICE}, which is not the account that would sign"]),
    (SIGN_IN.replace("\n\nI", "\nI"), None, ["this looks like a sign-in message and is none: line 3"]),
])  # fmt: skip
def test_warnings_of_a_sign_in_message(text: str, account: str | None, warnings: list[str]) -> None:
    for method in ("personal_sign", "eth_sign"):
        found = texts(explained(method, message(text), account), "WARNING")
        assert [each[: len(start)] for each, start in zip(found, warnings, strict=True)] == warnings


def assert_clean(lines: list[tuple[str, str]]) -> None:
    """There is something to see, each line is one, and labels are ours."""
    assert lines
    for label, text in lines:
        assert len(label) <= 12
        assert text.isprintable()
        assert len(text) <= 67


@each_row("method", METHODS)
@each_row("subject", [
    *(b"", b"{", b"\xff", b"[" * 10_000, b"[" * 900 + b"]" * 900, b"9" * 10_000),
    *(b'"\\ud800"', b"NaN", b'{"a\x1b": 1}'),
])  # fmt: skip
def test_no_subject_is_too_strange(method: str, subject: bytes) -> None:
    assert_clean(explain(method, subject))


@each_row("method", METHODS)
@given(value=json_values)
@example(value={"to": {}, "data": [], "gas": -1, "value": None, "accessList": {"a": 1}, "input": "0x"})
@example(value={"types": {}, "primaryType": [], "domain": None, "message": 1})
def test_any_json_is_explained(method: str, value: Any) -> None:
    assert_clean(explain(method, json.dumps(value).encode()))


@given(st.sampled_from(sorted(TYPED_DATA)), st.sampled_from(sorted(MAIL)), json_values)
def test_typed_data_with_anything_in_it_is_explained(name: str, member: str, value: Any) -> None:
    typed_data = {**TYPED_DATA[name]["typed_data"], member: value}
    assert_clean(explain("eth_signTypedData_v4", json.dumps(typed_data).encode()))


OTHER_MEMBERS = ["maxFeePerGas", "maxPriorityFeePerGas", "type", "data", "input", "accessList"]


@given(st.dictionaries(st.sampled_from([*TRANSFER, *OTHER_MEMBERS]), json_values), st.text())
@example(changes={"maxPriorityFeePerGas": "0x1"}, text="")
def test_transactions_and_texts_of_any_content_are_explained(changes: dict[str, Any], text: str) -> None:
    assert_clean(explain("eth_sendTransaction", json.dumps({**TRANSFER, **changes}).encode()))
    assert_clean(explain("personal_sign", json.dumps(message(text.encode("utf-8", "replace"))).encode()))


@each_row(("text", "shown"), [
    *((text, text) for text in ("", "plain", "Grüße", "日本語", "emoji 🎉", "a\u0301", "<U+0041>", "{}[]\\")),
    ("\x1b[2J", "<U+001B>[2J"),
    ("\u202egnp.exe\u202c\t", "<U+202E>gnp.exe<U+202C><U+0009>"),
    ("\u3164\u2800\u115f\uffa0\u034f\ufe0f", "<U+3164><U+2800><U+115F><U+FFA0><U+034F><U+FE0F>"),
    ("\U000e0041\U000e0101", "<U+E0041><U+E0101>"),
    ("\U00016fe4\U0001d159\U00013441", "<U+16FE4><U+1D159><U+13441>"),
    ("\ud800\ue000\U0010ffff", "<U+D800><U+E000><U+10FFFF>"),
])  # fmt: skip
def test_characters_that_leave_no_mark_are_spelled_out_and_others_stay(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(max_size=300), st.integers(20, 80))
def test_nothing_stays_invisible_and_folding_keeps_all_in_the_width(text: str, columns: int) -> None:
    shown = visible(text)
    first, *others = folded(shown, columns)
    assert all(character == " " or unicodedata.category(character)[0] not in "CZ" for character in shown)
    assert first + "".join(line.removeprefix("… ") for line in others) == shown
    for line in (first, *others):
        widths = [2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in line]
        assert sum(widths) <= columns


def test_lines_break_after_a_space_where_there_is_one() -> None:
    assert folded("one two three four five six", 20) == ["one two three four ", "… five six"]
    assert folded("x" * 45, 20) == ["x" * 20, "… " + "x" * 18, "… " + "x" * 7]
    assert folded("漢" * 15, 20) == ["漢" * 10, "… " + "漢" * 5]
