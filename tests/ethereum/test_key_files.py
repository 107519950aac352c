"""Mnemonics (BIP-39), derived keys (BIP-32, BIP-44) and key files (Web3 Secret Storage), and wrong ones."""

import hashlib
from collections.abc import Callable
from importlib import resources
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.keystore import (
    LIGHT_COST,
    STANDARD_COST,
    CostError,
    KeystoreError,
    PassphraseError,
    Pbkdf2,
    ScryptCost,
    make_keystore,
    read_keystore,
)
from bridge_server.ethereum.mnemonic import (
    ACCOUNTS_PATH,
    HARDENED,
    DerivationError,
    ExtendedKey,
    MnemonicError,
    checked_mnemonic,
    listed_words,
    master_key,
    mnemonic_seed,
)
from bridge_server.ethereum.signing_key import SigningKey, SigningKeyError
from tests.ethereum.vectors import vectors
from tests.support.rows import each_row

DEVELOPMENT = "test test test test test test test test test test test junk"
SECRET = bytes(31) + b"\x2a"
PASSPHRASE = b"open sesame"
ADDRESS = SigningKey(SECRET).address.lower()
ABSENT = object()


def test_the_list_is_that_of_the_standard() -> None:
    file = resources.files("bridge_server.ethereum").joinpath("bip39_english.txt").read_bytes()

    digest = "2f5eed53a4727b4bf8880d8f3f199efc90e58503646d9ff8eff3a2ed3b24dbda"
    assert hashlib.sha256(file).hexdigest() == digest
    assert len(listed_words()) == 2048


def test_spaces_capitals_and_composition_do_not_matter_and_a_passphrase_does() -> None:
    plain = mnemonic_seed(DEVELOPMENT)
    for text in (DEVELOPMENT.upper(), f"  {DEVELOPMENT}\n", DEVELOPMENT.replace(" ", "\t ")):
        assert (checked_mnemonic(text), mnemonic_seed(text)) == (DEVELOPMENT, plain)
    composed, decomposed = (mnemonic_seed(DEVELOPMENT, word) for word in ("p\u00e4ss", "pa\u0308ss"))
    assert composed == decomposed != plain


def test_words_that_are_no_mnemonic_are_refused_with_their_fault() -> None:
    misspelled = r"word 12, 'tset', is not in the list .*: did you mean .*\btest\b"
    for words, reason in (
        *((" ".join(["test"] * count), f"and this one {count}$") for count in (0, 1, 11, 13, 25)),
        (DEVELOPMENT.replace("junk", "tset"), misspelled),
        (DEVELOPMENT.replace("junk", "qqqqqqqq"), r"word 12, 'qqqqqqqq', is not in the list of BIP-39$"),
        (" ".join(["test"] * 12), "checksum is wrong"),
        (f"junk {' '.join(['test'] * 11)}", "checksum is wrong"),
    ):
        with pytest.raises(MnemonicError, match=reason):
            checked_mnemonic(words)


def test_seeds_of_another_size_are_refused() -> None:
    for size in (0, 15, 65):
        with pytest.raises(DerivationError, match=f"and this one {size}$"):
            master_key(bytes(size))


def test_a_path_has_hardened_steps_with_an_apostrophe_or_a_letter_and_a_faulty_step_is_named() -> None:
    root = master_key(bytes(16))
    assert root.descendant("m/44'") == root.descendant("m/44h") == root.descendant("m/44H")
    assert root.descendant("m/44'") == root.child(44 + HARDENED) != root.child(44)
    assert repr(root) == "ExtendedKey()", "no secret is shown"

    for index in (-1, 2 * HARDENED, 2**64):
        with pytest.raises(DerivationError, match=f"from 0 to 4294967295, and this one is {index}"):
            root.child(index)
    for path in ("", "44'/60'", "M/0", "/m/0"):
        with pytest.raises(DerivationError, match="a path begins with m"):
            root.descendant(path)
    for step in ("", "-1", "x", "0x1", "01", "1''", "1 ", "\u0661", str(HARDENED), "99999999999999999999"):
        with pytest.raises(DerivationError, match="is a number below 2147483648") as raised:
            root.descendant(f"m/0/{step}/1")
        assert repr(step) in str(raised.value)


def read_extended_key(text: str) -> ExtendedKey:
    """Base58: 4 bytes of version, 9 of the place in the tree, the chain code, 0, the key, a checksum."""
    number = 0
    for character in text:
        digit = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz".index(character)
        number = number * 58 + digit
    data = number.to_bytes(82)
    return ExtendedKey(secret=data[46:78], chain_code=data[13:45])


@each_row("vector", vectors("bip32.json"), ids=lambda vector: f"{vector['seed'][:4]} {vector['path']}")
def test_vectors_of_the_standard(vector: dict[str, str]) -> None:
    key = master_key(bytes.fromhex(vector["seed"])).descendant(vector["path"])
    assert key == read_extended_key(vector["extended_key"])


@each_row("vector", vectors("bip39.json"), ids=lambda vector: vector["entropy"])
def test_words_have_the_seed_and_the_master_key_of_the_standard(vector: dict[str, str]) -> None:
    seed = mnemonic_seed(vector["words"], "TREZOR")

    assert checked_mnemonic(vector["words"]) == vector["words"]
    assert seed.hex() == vector["seed"]
    assert master_key(seed) == read_extended_key(vector["extended_key"])


def test_accounts_stand_where_other_wallets_look_for_them() -> None:
    addresses = {
        0: "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
        1: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
        2: "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
        9: "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720",
    }
    root = master_key(mnemonic_seed(DEVELOPMENT))
    keys = {index: root.descendant(f"{ACCOUNTS_PATH}/{index}") for index in addresses}

    assert {index: SigningKey(key.secret).address for index, key in keys.items()} == addresses


def made(secret: bytes = SECRET, passphrase: bytes = PASSPHRASE) -> bytes:
    cost, salt, iv = ScryptCost(n=2, r=8, p=1), bytes(range(32)), bytes(range(16))
    return make_keystore(secret, passphrase, cost=cost, salt=salt, iv=iv, uuid="an-id")


def changed(members: dict[str, Any]) -> bytes:
    """The file with the members at these paths set, or without them."""
    file = orjson.loads(made())
    for path, value in members.items():
        *way, last = path.split(".")
        place = file
        for name in way:
            place = place[name]
        place[last] = value
        if value is ABSENT:
            del place[last]
    return orjson.dumps(file)


def renamed(value: Any, rename: Callable[[str], str]) -> Any:
    if not isinstance(value, dict):
        return value
    return {rename(name): renamed(member, rename) for name, member in value.items()}


@each_row("vector", vectors("keystore.json"), ids=lambda vector: vector["name"])
def test_files_of_the_definition_and_of_other_programs(vector: dict[str, Any]) -> None:
    keystore = read_keystore(orjson.dumps(vector["file"]))
    secret = keystore.open(vector["passphrase"].encode())

    assert secret.hex() == vector["key"]
    assert keystore.address in (None, SigningKey(secret).address.lower())


@given(st.integers(min_value=1, max_value=2**255), st.binary(max_size=80))
def test_any_key_comes_back_whatever_the_passphrase(number: int, passphrase: bytes) -> None:
    secret = number.to_bytes(32)

    assert read_keystore(made(secret, passphrase)).open(passphrase) == secret


@each_row(
    "content",
    [
        *(orjson.dumps(renamed(orjson.loads(made()), rename)) for rename in (str.upper, str.capitalize)),
        *(changed({"address": text}) for text in (ADDRESS, ADDRESS[2:], SigningKey(SECRET).address)),
        *(changed({"address": ABSENT}), changed({"address": None}), changed({"id": ABSENT})),
    ],
)
def test_a_file_may_have_names_in_capitals_and_leave_out_optional_members(content: bytes) -> None:
    keystore = read_keystore(content)

    assert keystore.open(PASSPHRASE) == SECRET
    assert keystore.address in (None, ADDRESS)


def test_a_wrong_passphrase_the_address_of_another_key_and_no_key_are_refused() -> None:
    keystore = read_keystore(made())
    for passphrase in (b"", b"open sesame ", b"Open sesame", bytes(1000)):
        with pytest.raises(PassphraseError, match="the passphrase is wrong, or the file is damaged"):
            keystore.open(passphrase)

    of_zeros = bytes(a ^ b for a, b in zip(keystore.ciphertext, SECRET, strict=True))
    mac = keccak256(keystore.kdf.key(PASSPHRASE)[16:] + of_zeros)
    for members, reason in (
        ({"address": "ab" * 20}, f"the file names 0x{'ab' * 20}, but its key belongs to {ADDRESS}"),
        ({"crypto.ciphertext": of_zeros.hex(), "crypto.mac": mac.hex()}, "the file holds no private key"),
    ):
        with pytest.raises(KeystoreError, match=reason):
            read_keystore(changed(members)).open(PASSPHRASE)
    with pytest.raises(SigningKeyError):
        made(bytes(32))


def pbkdf2(**params: Any) -> dict[str, Any]:
    return {"crypto.kdf": "pbkdf2", "crypto.kdfparams": {"dklen": 32, "salt": "00" * 32, **params}}


MALFORMED: list[tuple[dict[str, Any], str]] = [
    ({"version": ABSENT}, "^version is missing"),
    ({"version": 1}, "^version must be 3, and is 1"),
    ({"version": "3"}, "^version must be a whole number"),
    ({"address": 7}, "^address must be 40 hexadecimal digits"),
    ({"crypto": ABSENT}, "^crypto is missing"),
    ({"crypto": []}, "^crypto must be a JSON object"),
    ({"CRYPTO": {}}, "^the file has a member twice"),
    ({"crypto.cipher": "aes-256-ctr"}, "^crypto.cipher must be aes-128-ctr, and is"),
    ({"crypto.cipherparams": ABSENT}, "^crypto.cipherparams is missing"),
    ({"crypto.cipherparams.iv": "00" * 15}, "iv must have 16 bytes, and has 15"),
    ({"crypto.cipherparams.iv": 0}, "^crypto.cipherparams.iv must be a string"),
    ({"crypto.ciphertext": "0 0 "}, "^crypto.ciphertext must be hexadecimal"),
    ({"crypto.ciphertext": ""}, "ciphertext must have 1 to 32 bytes, and has 0"),
    ({"crypto.ciphertext": "00" * 33}, "ciphertext must have 1 to 32 bytes, and has 33"),
    ({"crypto.mac": "00" * 31}, "^crypto.mac must have 32 bytes, and has 31"),
    ({"crypto.kdf": "argon2"}, "^crypto.kdf must be scrypt or pbkdf2, and is 'argon2'"),
    ({"crypto.kdfparams.salt": ""}, "salt must have 1 to 256 bytes, and has 0"),
    ({"crypto.kdfparams.dklen": 64}, "^crypto.kdfparams.dklen must be 32, and is 64"),
    ({"crypto.kdfparams.n": 1.5}, "^crypto.kdfparams.n must be a whole number"),
    ({"crypto.kdfparams.r": ABSENT}, "^crypto.kdfparams.r is missing"),
    ({"crypto.kdfparams.n": 3}, "^crypto.kdfparams: n must be a power of two"),
    ({"crypto.kdfparams.p": 0}, "^crypto.kdfparams: n must be a power of two"),
    (pbkdf2(c=10_000_001, prf="hmac-sha256"), "c must lie between 1 and 10000000, and is 10000001"),
    (pbkdf2(c=1, prf="hmac-md5"), "prf must be hmac-sha256, and is 'hmac-md5'"),
    (pbkdf2(c=1), "prf is missing"),
]


@each_row(
    ("content", "message"),
    [
        (b"", "the file is not JSON"),
        (b"[" * 60_000, "the file is not JSON"),
        (b"[]", "the file must be a JSON object"),
        (b" " * 65_537, "the file is larger than 65536 bytes"),
        *((changed(members), message) for members, message in MALFORMED),
    ],
)
def test_a_malformed_file_is_refused_with_its_fault(content: bytes, message: str) -> None:
    with pytest.raises(KeystoreError, match=message):
        read_keystore(content)


def test_the_cost_of_a_file_has_bounds_within_which_other_programs_stay() -> None:
    for cost in (
        (2**21, 8, 1),  # 2 GiB for the table
        (2, 2**20, 2**10),  # 128 GiB for the blocks
        (2**14, 1, 2**13),  # hours
        (2**64, 2**64, 2**64),
    ):
        with pytest.raises(CostError, match="ask for too much memory or time"):
            ScryptCost(*cost)
    assert (STANDARD_COST.n, LIGHT_COST.n) == (262_144, 4_096)
    assert ScryptCost(n=2**20, r=8, p=1).n == 2**20  # a whole GiB
    assert Pbkdf2(10_000_000, b"salt").rounds == 10_000_000


# A power of two is a valid cost of scrypt.
WRONG_INTEGERS = st.integers(-(2**63), 2**64 - 1).filter(lambda number: number.bit_count() != 1)
LEAVES = st.none() | st.floats() | WRONG_INTEGERS | st.text()


@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5))
def test_any_malformed_value_is_refused(value: Any) -> None:
    for path in ("version", "crypto", "crypto.kdfparams", "crypto.kdfparams.n"):
        with pytest.raises(KeystoreError):
            read_keystore(changed({path: value}))
