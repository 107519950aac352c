"""The data to sign, in words: all of it, its meaning, and nothing hidden."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from bridge_server.ethereum.keccak import keccak256
from bridge_server.wallet.explaining import explain
from tests.ethereum.signed_transactions import FIELDS, published_raw, signed, signed_for_every_chain
from tests.ethereum.vectors import vectors
from tests.support.rows import each_row

ALICE = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
SPENDER = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"
TOKEN = "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB"
UNLIMITED = 2**256 - 1

TRANSFER = {
    "from": ALICE.lower(),
    "to": SPENDER.lower(),
    "value": hex(15 * 10**17),
    "gas": "0x5208",
    "gasPrice": hex(20 * 10**9),
    "nonce": "0x9",
    "chainId": "0x1",
}
OTHER_MEMBERS = ["maxFeePerGas", "maxPriorityFeePerGas", "type", "data", "input", "accessList"]
TYPED_DATA = {vector["name"]: vector for vector in vectors("typed_data.json")}
METHODS = [
    *("personal_sign", "eth_sign", "eth_signTypedData", "eth_signTypedData_v4", "eth_sendTransaction"),
    *("eth_signTransaction", "eth_sendRawTransaction", "eth_somethingNew"),
]

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


class TestTransactions:
    """Transactions: their effects and their greatest costs."""

    def test_a_transfer_of_ether(self) -> None:
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

    def test_fees_with_a_maximum_and_a_tip(self) -> None:
        fees = {"maxFeePerGas": hex(30 * 10**9), "maxPriorityFeePerGas": hex(15 * 10**8)}
        transaction = {name: value for name, value in TRANSFER.items() if name != "gasPrice"} | fees

        lines = explained("eth_signTransaction", transaction)

        assert texts(lines, "fee") == ["at most 0.00063 ether (630000000000000 wei): 21000 gas at 30 gwei"]
        assert texts(lines, "tip") == ["1.5 gwei of it"]

    @each_row(
        ("wei", "text"),
        [
            (0, "0 ether"),
            (1, "0.000000000000000001 ether (1 wei)"),
            (10**18, "1 ether (1000000000000000000 wei)"),
            (10**18 + 10, "1.00000000000000001 ether (1000000000000000010 wei)"),
            (100 * 10**18, "100 ether (100000000000000000000 wei)"),
        ],
    )
    def test_ether_is_exact(self, wei: int, text: str) -> None:
        assert texts(explained("eth_sendTransaction", {**TRANSFER, "value": hex(wei)}), "value") == [text]

    def test_a_contract_creation(self) -> None:
        transaction = {**TRANSFER, "to": None, "data": "0x6001"}

        lines = explained("eth_sendTransaction", transaction)

        assert lines[0] == ("does", "create a contract")
        assert texts(lines, "to") == []
        assert texts(lines, "data") == ["2 bytes: 0x6001"]

    def test_an_unknown_call_shows_its_selector_and_its_data(self) -> None:
        lines = explained("eth_sendTransaction", {**TRANSFER, "input": "0xdeadbeef01"})

        assert lines[0] == ("does", "call a function that is not known here: 0xdeadbeef")
        assert texts(lines, "input") == ["5 bytes: 0xdeadbeef01"]

    @each_row("empty", ["input", "data"])
    def test_data_are_not_hidden_by_their_other_name(self, empty: str) -> None:
        name = "data" if empty == "input" else "input"

        lines = explained("eth_sendTransaction", {**TRANSFER, empty: None, name: "0xdeadbeef"})

        assert texts(lines, "does") == ["call a function that is not known here: 0xdeadbeef"]
        assert texts(lines, name) == ["4 bytes: 0xdeadbeef"]

    def test_long_data_are_shown_by_their_beginning_and_their_length(self) -> None:
        lines = explained("eth_sendTransaction", {**TRANSFER, "data": "0x" + "ab" * 5_000})

        assert texts(lines, "data") == ["5000 bytes, of which the first 1024: 0x" + "ab" * 1024]

    def test_unknown_members_are_shown(self) -> None:
        lines = explained("eth_sendTransaction", {**TRANSFER, "surprise\u202e": {"a": "\x1b"}})

        assert texts(lines, "also") == ['surprise<U+202E>: {"a": "\\u001b"}']

    def test_an_access_list_is_shown(self) -> None:
        entry = {"address": TOKEN, "storageKeys": ["0x" + "00" * 32]}

        lines = explained("eth_sendTransaction", {**TRANSFER, "accessList": [entry, entry]})

        assert texts(lines, "access list") == [json.dumps(entry)] * 2

    @each_row("name", ["from", "to", "value", "nonce", "chainId", "data"])
    @each_row("value", ["strange", 5, ["0x1"], {"a": 1}, True])
    def test_a_member_of_another_kind_is_shown_as_it_came(self, name: str, value: Any) -> None:
        lines = explained("eth_sendTransaction", {**TRANSFER, name: value})

        assert any(json.dumps(value) in text for _, text in lines)

    @each_row("missing", ["gas", "gasPrice"])
    def test_a_cost_that_is_not_known_is_a_warning(self, missing: str) -> None:
        transaction = {name: value for name, value in TRANSFER.items() if name != missing}

        lines = explained("eth_sendTransaction", transaction)

        assert any("what it can cost is not known" in text for text in texts(lines, "WARNING"))

    def test_two_prices_or_two_kinds_of_data_are_a_warning(self) -> None:
        two_prices = explained("eth_sendTransaction", {**TRANSFER, "maxFeePerGas": "0x1"})
        two_data = explained("eth_sendTransaction", {**TRANSFER, "data": "0x01", "input": "0x02"})

        assert any("one price" in text for text in texts(two_prices, "WARNING"))
        assert texts(two_prices, "gas price") == ['"0x4a817c800"']
        assert texts(two_data, "WARNING") == ["data and input differ"]

    def test_a_signed_transaction(self) -> None:
        vector = vectors("transactions.json")[0]

        lines = explained("eth_sendRawTransaction", vector["raw"])

        assert texts(lines, "hash") == [vector["hash"]]
        assert texts(lines, "does") == ["send ether"]
        assert texts(lines, "chain") == ["1"]
        assert texts(lines, "nonce") == [str(int(vector["transaction"]["nonce"], 16))]

    @each_row(
        ("kind", "label", "text"),
        [
            ("fee market", "tip", "0.0000005 gwei of it"),
            ("blobs", "blob fee", "besides, at most 0.000000017179869184 ether (17179869184 wei)"),
            ("blobs", "blob", "0x015a4cab4911426699ed34483de6640cf55a568afc5c5edffdcbd8bcd4452f68"),
            (
                "set code",
                "authorizes",
                "0x58f8fe237b593C19546e1e758a2544561d04bfe0 to be the code of an account "
                "(nonce 0, chain 3503995874084926)",
            ),
        ],
    )
    def test_a_signed_transaction_of_a_later_type(self, kind: str, label: str, text: str) -> None:
        [spelled] = [
            vector["transaction"]
            for vector in vectors("published_transactions.json")
            if vector["name"] == kind
        ]

        lines = explained("eth_sendRawTransaction", f"0x{published_raw(spelled).hex()}")

        assert texts(lines, label) == [text]
        assert texts(lines, "hash") == [spelled["hash"]]

    def test_the_access_list_of_a_signed_transaction_is_shown(self) -> None:
        lines = explained("eth_sendRawTransaction", f"0x{signed(1, FIELDS[1]).hex()}")

        assert texts(lines, "access list") == [
            json.dumps({"address": "0x" + "35" * 20, "storageKeys": ["0x" + "00" * 32]})
        ]

    def test_every_blob_costs_its_fee(self) -> None:
        lines = explained("eth_sendRawTransaction", f"0x{signed(3, FIELDS[3]).hex()}")

        assert texts(lines, "blob fee") == ["besides, at most 0.00000000000131072 ether (1310720 wei)"]
        assert len(texts(lines, "blob")) == 2

    def test_a_transaction_for_every_chain_is_called_so(self) -> None:
        lines = explained("eth_sendRawTransaction", f"0x{signed_for_every_chain().hex()}")

        assert texts(lines, "chain") == ["EVERY chain: it is not bound to one"]

    def test_an_authorization_for_every_chain_is_called_so(self) -> None:
        lines = explained("eth_sendRawTransaction", f"0x{signed(4, FIELDS[4]).hex()}")

        [text] = texts(lines, "authorizes")
        assert text.endswith("to be the code of an account (nonce 7, EVERY chain)")

    def test_a_signed_transaction_that_is_none(self) -> None:
        lines = explained("eth_sendRawTransaction", "0x02c0")

        assert texts(lines, "WARNING") == [
            "this is not understood: the transaction must have 12 items, and has 0"
        ]


class TestTokens:
    """The calls that everybody should understand."""

    def test_a_transfer(self) -> None:
        lines = explained("eth_sendTransaction", call("transfer(address,uint256)", SPENDER, 1_000))

        assert lines[:3] == [
            ("does", "send a token (ERC-20): transfer(address,uint256)"),
            ("", f"  to: {SPENDER}"),
            ("", "  amount: 1000"),
        ]
        assert texts(lines, "WARNING") == []

    @each_row("amount", [2**96 - 1, 2**128, 2**160 - 1, 2**255, UNLIMITED])
    def test_an_allowance_without_an_end_is_called_so(self, amount: int) -> None:
        lines = explained("eth_sendTransaction", call("approve(address,uint256)", SPENDER, amount))

        assert texts(lines, "")[:2] == [f"  spender: {SPENDER}", f"  amount: {amount}"]
        assert [text[:10] for text in texts(lines, "WARNING")] == ["UNLIMITED:"]

    @each_row("amount", [1, 2**96 - 2, 2**96, 2**128 - 1])
    def test_an_allowance_with_an_end_is_not_called_unlimited(self, amount: int) -> None:
        lines = explained("eth_sendTransaction", call("approve(address,uint256)", SPENDER, amount))

        assert texts(lines, "WARNING") == [
            "the spender can take this token from the account, up to the amount, at any time"
        ]

    def test_an_allowance_that_is_taken_back_is_no_danger(self) -> None:
        lines = explained("eth_sendTransaction", call("approve(address,uint256)", SPENDER, 0))

        assert texts(lines, "WARNING") == []

    def test_an_allowance_by_a_permit(self) -> None:
        signature = "permit(address,address,uint256,uint256,uint8,bytes32,bytes32)"

        lines = explained(
            "eth_sendTransaction", call(signature, ALICE, SPENDER, UNLIMITED, 1_700_000_000, 27, 1, 2)
        )

        assert texts(lines, "")[:5] == [
            f"  owner: {ALICE}",
            f"  spender: {SPENDER}",
            f"  value: {UNLIMITED}",
            "  deadline: 1700000000 (2023-11-14T22:13:20.000Z)",
            "  v: 27",
        ]
        assert texts(lines, "WARNING")[0].startswith("UNLIMITED")

    @each_row(("approved", "warnings"), [(1, 1), (0, 0)])
    def test_an_approval_of_all_tokens(self, approved: int, warnings: int) -> None:
        lines = explained("eth_sendTransaction", call("setApprovalForAll(address,bool)", SPENDER, approved))

        assert texts(lines, "")[1] == f"  approved: {'true' if approved else 'false'}"
        assert ["EVERY token" in text for text in texts(lines, "WARNING")] == [True] * warnings

    @each_row(
        ("signature", "words", "standard"),
        [
            ("transferFrom(address,address,uint256)", (ALICE, SPENDER, 7), "ERC-20"),
            ("safeTransferFrom(address,address,uint256)", (ALICE, SPENDER, 7), "ERC-721"),
            ("safeTransferFrom(address,address,uint256,bytes)", (ALICE, SPENDER, 7, 128, 0), "ERC-721"),
            (
                "safeTransferFrom(address,address,uint256,uint256,bytes)",
                (ALICE, SPENDER, 7, 1, 160, 0),
                "ERC-1155",
            ),
            ("increaseAllowance(address,uint256)", (SPENDER, 7), "ERC-20"),
            ("decreaseAllowance(address,uint256)", (SPENDER, 7), "ERC-20"),
        ],
    )
    def test_other_calls_of_tokens_are_explained(
        self, signature: str, words: tuple[int | str, ...], standard: str
    ) -> None:
        lines = explained("eth_sendTransaction", call(signature, *words))

        assert lines[0][1].endswith(f": {signature}")
        assert standard in lines[0][1]
        assert f"  {'spender' if 'Allowance' in signature else 'to'}: {SPENDER}" in texts(lines, "")

    @each_row(
        ("transaction", "fault"),
        [
            (call("transfer(address,uint256)", SPENDER), "has 32 bytes of arguments, and needs 64"),
            (call("transfer(address,uint256)", UNLIMITED, 1), "to is no address: 0xffff"),
            (call("transfer(address,uint256)", 2**160, 1), "to is no address: 0x0000"),
            (call("setApprovalForAll(address,bool)", SPENDER, 2), "approved is neither true nor false"),
        ],
    )
    def test_a_call_that_cannot_be_read_is_a_warning(self, transaction: dict[str, str], fault: str) -> None:
        [warning] = texts(explained("eth_sendTransaction", transaction), "WARNING")

        assert warning.startswith("the call cannot be read:")
        assert fault in warning

    def test_bytes_after_the_arguments_are_mentioned(self) -> None:
        transaction = call("transfer(address,uint256)", SPENDER, 1, 5)

        lines = explained("eth_sendTransaction", transaction)

        assert "  and: 32 bytes more, which the call does not need" in texts(lines, "")


class TestTypedData:
    """Typed data: a tree of every member, and the allowances of permits."""

    def test_the_standards_mail(self) -> None:
        vector = TYPED_DATA["the standard's Mail"]

        assert explained("eth_signTypedData_v4", vector["typed_data"]) == [
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
            ("EIP-712", vector["digest"]),
        ]

    @each_row(
        ("kind", "value", "text"),
        [
            ("address", SPENDER.lower(), SPENDER),
            ("bytes", "0x", "0x"),
            ("bytes4", "0x000000ff", "0x000000ff"),
            ("uint256", "0xff", "255"),
            ("int8", "-007", "-7"),
            ("bool", False, "false"),
            ("string", "", '""'),
            ("string", "0xff", '"0xff"'),
            ("uint256", 2**200, str(2**200)),
        ],
    )
    def test_each_kind_of_value_has_one_spelling(self, kind: str, value: Any, text: str) -> None:
        typed_data = {
            "types": {"Holder": [{"name": "held", "type": kind}]},
            "primaryType": "Holder",
            "domain": {},
            "message": {"held": value},
        }

        lines = explained("eth_signTypedData_v4", typed_data)

        assert texts(lines, "message") == [f"held ({kind}): {text}"]

    def test_arrays_count_their_elements(self) -> None:
        lines = explained("eth_signTypedData", TYPED_DATA["three dimensions"]["typed_data"])

        assert texts(lines, "message") == ["items (bool[1][2][]): 1 of them"]
        assert texts(lines, "") == [
            "  0 (bool[1][2]): 2 of them",
            "    0 (bool[1]): 1 of them",
            "      0 (bool): true",
            "    1 (bool[1]): 1 of them",
            "      0 (bool): false",
        ]

    def test_the_json_string_of_typed_data(self) -> None:
        typed_data = TYPED_DATA["groups of groups"]["typed_data"]

        assert explained("eth_signTypedData", json.dumps(typed_data)) == explained(
            "eth_signTypedData", typed_data
        )

    def test_a_domain_without_its_type(self) -> None:
        typed_data = TYPED_DATA["the standard's Mail"]["typed_data"]
        types = {name: members for name, members in typed_data["types"].items() if name != "EIP712Domain"}

        lines = explained("eth_signTypedData", {**typed_data, "types": types})

        assert texts(lines, "domain") == ['name (string): "Ether Mail"']

    def test_an_unlimited_permit(self) -> None:
        typed_data = TYPED_DATA["EIP-2612 permit, unlimited"]["typed_data"]

        lines = explained("eth_signTypedData_v4", {**typed_data, "walletChainId": "0x1"})

        assert texts(lines, "WARNING") == [
            "the holder of the signature: 0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB can take UNLIMITED "
            "of the token 0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"
        ]
        assert "deadline (uint256): 1700000000 (2023-11-14T22:13:20.000Z)" in texts(lines, "")

    def test_a_permit_for_several_tokens(self) -> None:
        typed_data = TYPED_DATA["Permit2 batch"]["typed_data"]

        lines = explained("eth_signTypedData_v4", {**typed_data, "walletChainId": "0x1"})

        first, second = texts(lines, "WARNING")
        assert "can take UNLIMITED of the token 0xA0b8" in first
        assert "can take 0 of the token 0xCcCC" in second

    def test_a_permit_for_one_transfer(self) -> None:
        typed_data = {
            "types": {
                "PermitTransferFrom": [
                    {"name": "permitted", "type": "TokenPermissions"},
                    {"name": "spender", "type": "address"},
                ],
                "TokenPermissions": [
                    {"name": "token", "type": "address"},
                    {"name": "amount", "type": "uint256"},
                ],
            },
            "primaryType": "PermitTransferFrom",
            "domain": {"name": "Permit2"},
            "message": {"permitted": {"token": TOKEN, "amount": "0x3e8"}, "spender": SPENDER},
        }

        assert texts(explained("eth_signTypedData_v4", typed_data), "WARNING") == [
            f"the holder of the signature: {SPENDER} can take 1000 of the token {TOKEN}"
        ]

    @each_row(("allowed", "text"), [(True, "UNLIMITED of"), (False, "no more of")])
    def test_a_permit_that_allows_all_or_nothing(self, allowed: bool, text: str) -> None:
        members = [{"name": "spender", "type": "address"}, {"name": "allowed", "type": "bool"}]
        typed_data = {
            "types": {
                "EIP712Domain": [{"name": "verifyingContract", "type": "address"}],
                "Permit": members,
            },
            "primaryType": "Permit",
            "domain": {"verifyingContract": TOKEN},
            "message": {"spender": SPENDER, "allowed": allowed},
        }

        [warning] = texts(explained("eth_signTypedData_v4", typed_data), "WARNING")

        assert f"{SPENDER} can take {text} the token {TOKEN}" in warning

    @each_row(
        ("wallets", "line"),
        [
            ("0x1", ("chain", "1, which is the wallet's")),
            ("0x7a69", ("WARNING", "it is for chain 1, and the wallet is on chain 31337")),
            ("one", ("WARNING", "it is for chain 1, and which chain the wallet is on was not known")),
            (1, ("WARNING", "it is for chain 1, and which chain the wallet is on was not known")),
        ],
    )
    def test_the_chain_is_compared_with_the_wallets(self, wallets: Any, line: tuple[str, str]) -> None:
        typed_data = {**TYPED_DATA["the standard's Mail"]["typed_data"], "walletChainId": wallets}

        assert explained("eth_signTypedData_v4", typed_data)[1] == line

    def test_typed_data_for_every_chain_names_no_chain(self) -> None:
        typed_data = {**TYPED_DATA["domain of a name"]["typed_data"], "walletChainId": "0x1"}

        assert [label for label, _ in explained("eth_signTypedData_v4", typed_data)] == [
            *("does", "domain", "message", "EIP-712")
        ]

    def test_unsigned_members_are_not_shown_and_hide_no_signed_ones(self) -> None:
        vector = TYPED_DATA["members that no type names"]
        mail = TYPED_DATA["the standard's Mail"]

        lines = explained("eth_signTypedData_v4", vector["typed_data"])

        assert lines == explained("eth_signTypedData_v4", mail["typed_data"])

    @each_row("more", [{"amount": "0"}, {"allowed": False}, {"details": []}, {"token": TOKEN}])
    def test_a_permit_is_explained_by_its_signed_members(self, more: dict[str, Any]) -> None:
        typed_data = TYPED_DATA["EIP-2612 permit, unlimited"]["typed_data"]
        message = {**more, **typed_data["message"]}

        assert explained("eth_signTypedData_v4", {**typed_data, "message": message}) == explained(
            "eth_signTypedData_v4", typed_data
        )

    def test_texts_cannot_fake_members(self) -> None:
        fake = 'x"\nwallet (address): \u202e0xbad\x1b[1A'
        typed_data = json.loads(
            json.dumps(TYPED_DATA["the standard's Mail"]["typed_data"]).replace(
                '"Hello, Bob!"', json.dumps(fake)
            )
        )

        lines = explained("eth_signTypedData_v4", typed_data)

        assert lines[-2] == (
            "",
            'contents (string): "x\\"\\nwallet (address): <U+202E>0xbad\\u001b[1A"',
        )

    def test_a_subject_that_is_not_understood_is_shown_as_it_came(self) -> None:
        lines = explained("eth_signTypedData_v4", {"types": {}, "evil": "\u202e"})

        assert texts(lines, "WARNING")[0].startswith("this is not understood: primaryType is missing")
        assert '  "evil": "<U+202E>"' in texts(lines, "")

    def test_very_long_typed_data_says_that_it_is_cut(self) -> None:
        typed_data = {
            "types": {"EIP712Domain": [], "List": [{"name": "items", "type": "uint8[]"}]},
            "primaryType": "List",
            "domain": {},
            "message": {"items": [7] * 5_000},
        }

        lines = explained("eth_signTypedData_v4", typed_data)

        assert len(lines) == 2_001
        assert lines[-1] == ("WARNING", "3004 more lines are not shown here: --json has everything")

    @each_row("vector", TYPED_DATA.values(), ids=TYPED_DATA.keys())
    def test_all_typed_data_that_can_be_signed_can_be_explained(self, vector: dict[str, Any]) -> None:
        lines = explained("eth_signTypedData_v4", vector["typed_data"])

        assert lines[0] == ("does", f"sign {vector['typed_data']['primaryType']}")
        assert lines[-1] == ("EIP-712", vector["digest"])


class TestMessages:
    """As text when they are text, always as bytes."""

    @each_row("subject", [message("Hello, ♥"), {"message": message("Hello, ♥")}])
    def test_a_text_is_shown_with_its_bytes_and_hash(self, subject: Any) -> None:
        assert explained("personal_sign", subject) == [
            ("text", "Hello, ♥"),
            ("bytes", "10 bytes: 0x48656c6c6f2c20e299a5"),
            ("hash", "0x" + keccak256(b"\x19Ethereum Signed Message:\n10Hello, \xe2\x99\xa5").hex()),
        ]

    def test_a_line_without_end_is_cut(self) -> None:
        lines = explain("personal_sign", json.dumps(message("x" * 500_000)).encode())

        assert len(lines) == 2_001
        assert lines[-1][0] == "WARNING"

    def test_lines_stay_lines_and_never_become_labels(self) -> None:
        lines = explain("eth_sign", json.dumps(message("one\nWARNING  all is well\x1b[2A\n")).encode())

        assert lines[:3] == [("text", "one"), ("", "WARNING  all is well<U+001B>[2A"), ("", "")]

    def test_an_empty_message_is_called_empty(self) -> None:
        assert explained("personal_sign", "0x")[:2] == [("text", "(empty)"), ("bytes", "none")]

    def test_bytes_that_are_no_text(self) -> None:
        lines = explained("personal_sign", message(b"\xff\xfe"))

        assert lines[:2] == [
            ("WARNING", "the message is not text (UTF-8)"),
            ("bytes", "2 bytes: 0xfffe"),
        ]

    def test_a_message_that_may_be_a_hash_is_a_warning(self) -> None:
        lines = explained("personal_sign", message(b"\xff" * 32))

        assert "may be the hash of something" in lines[0][1]

    def test_a_sign_in_message(self) -> None:
        text = (
            f"example.org wants you to sign in with your Ethereum account:\n{ALICE}\n\nI accept.\n\n"
            "URI: https://example.org/login\nVersion: 1\nChain ID: 1\nNonce: 32891756\n"
            "Issued At: 2021-09-30T16:25:24Z\nExpiration Time: 2021-10-30T16:25:24Z\n"
            "Not Before: 2021-09-30T16:25:24Z\nResources:\n- https://example.org/a"
        )

        lines = explained("personal_sign", message(text))

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

    @each_row(
        ("account", "warnings"),
        [
            (ALICE.lower(), []),
            (None, []),
            (SPENDER.lower(), [f"it signs in {ALICE}, which is not the account that would sign"]),
        ],
    )
    def test_signing_in_another_account_is_a_warning(self, account: str | None, warnings: list[str]) -> None:
        text = (
            f"example.org wants you to sign in with your Ethereum account:\n{ALICE}\n\n\n"
            "URI: https://example.org/login\nVersion: 1\nChain ID: 1\nNonce: 32891756\n"
            "Issued At: 2021-09-30T16:25:24Z"
        )

        for method in ("personal_sign", "eth_sign"):
            lines = explained(method, message(text), account)

            assert texts(lines, "WARNING") == warnings

    def test_a_text_that_only_looks_like_a_sign_in_message_is_a_warning(self) -> None:
        text = f"example.org wants you to sign in with your Ethereum account:\n{ALICE}\nHello"

        [warning] = texts(explained("personal_sign", message(text)), "WARNING")

        assert warning.startswith("this looks like a sign-in message and is none: line 3")


class TestAnything:
    """Whatever stands in the database can be shown."""

    @each_row("method", METHODS)
    @each_row(
        "subject",
        [
            b"",
            b"{",
            b"\xff",
            b"[" * 100_000,
            b"[" * 900 + b"]" * 900,
            b"9" * 10_000,
            b'"\\ud800"',
            b"NaN",
            b'{"a\x1b": 1}',
        ],
    )
    def test_no_subject_is_too_strange(self, method: str, subject: bytes) -> None:
        assert_clean(explain(method, subject))

    @each_row("method", METHODS)
    @given(value=json_values)
    @example(value={"to": {}, "data": [], "gas": -1, "value": None, "accessList": {"a": 1}, "input": "0x"})
    @example(value={"types": {}, "primaryType": [], "domain": None, "message": 1})
    def test_any_json_is_explained(self, method: str, value: Any) -> None:
        assert_clean(explain(method, json.dumps(value).encode()))

    @given(
        st.sampled_from(sorted(TYPED_DATA)),
        st.sampled_from(["types", "primaryType", "domain", "message"]),
        json_values,
    )
    def test_typed_data_with_anything_in_it_is_explained(self, name: str, member: str, value: Any) -> None:
        typed_data = {**TYPED_DATA[name]["typed_data"], member: value}

        assert_clean(explain("eth_signTypedData_v4", json.dumps(typed_data).encode()))

    @given(st.dictionaries(st.sampled_from([*TRANSFER, *OTHER_MEMBERS]), json_values))
    @example(changes={"maxPriorityFeePerGas": "0x1"})
    def test_transactions_with_anything_in_them_are_explained(self, changes: dict[str, Any]) -> None:
        assert_clean(explain("eth_sendTransaction", json.dumps({**TRANSFER, **changes}).encode()))

    @given(st.sampled_from(["approve(address,uint256)", "transfer(address,uint256)"]), st.binary(max_size=70))
    def test_any_arguments_are_explained(self, signature: str, arguments: bytes) -> None:
        data = keccak256(signature.encode())[:4] + arguments

        assert_clean(explain("eth_sendTransaction", json.dumps({**TRANSFER, "data": message(data)}).encode()))

    @given(st.text())
    def test_any_text_is_explained(self, text: str) -> None:
        assert_clean(explain("personal_sign", json.dumps(message(text.encode("utf-8", "replace"))).encode()))


def assert_clean(lines: list[tuple[str, str]]) -> None:
    """There is something to see, each line is one, and labels are ours."""
    assert lines
    for label, text in lines:
        assert len(label) <= 12
        assert text.isprintable()
        assert len(text) <= 67
