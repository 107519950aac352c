"""Mnemonics (BIP-39), derived keys (BIP-32, BIP-44) and key files (Web3 Secret Storage), and wrong ones."""

import hashlib
from collections.abc import Callable
from importlib import resources
from pathlib import Path
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
    new_mnemonic,
)
from bridge_server.ethereum.signing_key import SigningKey, SigningKeyError
from tests.support.rows import each_row

VECTORS = Path(__file__).parents[1] / "vectors"
BIP39 = orjson.loads((VECTORS / "bip39.json").read_bytes())["vectors"]
DEVELOPMENT = "test test test test test test test test test test test junk"
BIP32 = orjson.loads((VECTORS / "bip32.json").read_bytes())["vectors"]
KEYSTORES = orjson.loads((VECTORS / "keystore.json").read_bytes())["vectors"]
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
FAST = ScryptCost(n=2, r=8, p=1)
SECRET = bytes(31) + b"\x2a"
PASSPHRASE = b"open sesame"
ADDRESS = SigningKey(SECRET).address.lower()


def test_the_list_is_that_of_the_standard() -> None:
    file = resources.files("bridge_server.ethereum").joinpath("bip39_english.txt").read_bytes()

    digest = "2f5eed53a4727b4bf8880d8f3f199efc90e58503646d9ff8eff3a2ed3b24dbda"
    assert hashlib.sha256(file).hexdigest() == digest
    assert len(listed_words()) == 2048


@given(st.sampled_from([16, 20, 24, 28, 32]).flatmap(lambda size: st.binary(min_size=size, max_size=size)))
def test_words_made_from_any_entropy_are_a_mnemonic(entropy: bytes) -> None:
    words = new_mnemonic(entropy)

    assert checked_mnemonic(words) == words
    assert len(words.split()) == len(entropy) * 3 // 4


@each_row("text", [DEVELOPMENT.upper(), f"  {DEVELOPMENT}\n", DEVELOPMENT.replace(" ", "\t ")])
def test_spaces_and_capitals_do_not_matter(text: str) -> None:
    assert checked_mnemonic(text) == DEVELOPMENT
    assert mnemonic_seed(text) == mnemonic_seed(DEVELOPMENT)


def test_a_passphrase_changes_the_seed_however_it_is_composed() -> None:
    composed, decomposed = "p\u00e4ss", "pa\u0308ss"

    assert mnemonic_seed(DEVELOPMENT, composed) == mnemonic_seed(DEVELOPMENT, decomposed)
    assert mnemonic_seed(DEVELOPMENT, composed) != mnemonic_seed(DEVELOPMENT)


@each_row(
    ("words", "reason"),
    [
        *((" ".join(["test"] * count), f"and this one {count}$") for count in (0, 1, 11, 13, 25)),
        (
            DEVELOPMENT.replace("junk", "tset"),
            r"word 12, 'tset', is not in the list .*: did you mean .*\btest\b",
        ),
        (DEVELOPMENT.replace("junk", "qqqqqqqq"), r"word 12, 'qqqqqqqq', is not in the list of BIP-39$"),
        (" ".join(["test"] * 12), "checksum is wrong"),
        (f"junk {' '.join(['test'] * 11)}", "checksum is wrong"),
    ],
)
def test_words_that_are_no_mnemonic_are_refused_with_their_fault(words: str, reason: str) -> None:
    with pytest.raises(MnemonicError, match=reason):
        checked_mnemonic(words)


def test_entropy_and_seeds_of_another_size_are_refused() -> None:
    for size in (0, 12, 15, 17, 33, 64):
        with pytest.raises(MnemonicError, match=f"and has {size}$"):
            new_mnemonic(bytes(size))
    for size in (0, 15, 65):
        with pytest.raises(DerivationError, match=f"and this one {size}$"):
            master_key(bytes(size))


def test_a_path_that_is_none_is_refused_with_its_faulty_step() -> None:
    root = master_key(bytes(16))
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
        number = number * 58 + BASE58.index(character)
    data = number.to_bytes(82)
    return ExtendedKey(secret=data[46:78], chain_code=data[13:45])


@each_row("vector", BIP32, ids=lambda vector: f"{vector['seed'][:4]} {vector['path']}")
def test_vectors_of_the_standard(vector: dict[str, str]) -> None:
    key = master_key(bytes.fromhex(vector["seed"])).descendant(vector["path"])

    assert key == read_extended_key(vector["extended_key"])


@each_row("vector", BIP39, ids=lambda vector: vector["entropy"])
def test_entropy_has_the_words_the_seed_and_the_master_key_of_the_standard(vector: dict[str, str]) -> None:
    seed = mnemonic_seed(vector["words"], "TREZOR")

    assert new_mnemonic(bytes.fromhex(vector["entropy"])) == vector["words"]
    assert seed.hex() == vector["seed"]
    assert master_key(seed) == read_extended_key(vector["extended_key"])


@each_row(
    ("index", "address"),
    [
        (0, "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"),
        (1, "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"),
        (2, "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"),
        (9, "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720"),
    ],
)
def test_accounts_stand_where_other_wallets_look_for_them(index: int, address: str) -> None:
    key = master_key(mnemonic_seed(DEVELOPMENT)).descendant(f"{ACCOUNTS_PATH}/{index}")

    assert SigningKey(key.secret).address == address


def test_hardened_steps_are_written_with_an_apostrophe_or_a_letter_and_no_secret_is_shown() -> None:
    root = master_key(bytes(16))

    assert root.descendant("m/44'") == root.descendant("m/44h") == root.descendant("m/44H")
    assert root.descendant("m/44'") == root.child(44 + HARDENED) != root.child(44)
    assert repr(root) == "ExtendedKey()"


def made(secret: bytes = SECRET, passphrase: bytes = PASSPHRASE) -> bytes:
    return make_keystore(
        secret, passphrase, cost=FAST, salt=bytes(range(32)), iv=bytes(range(16)), uuid="an-id"
    )


def changed(*path: str, to: Any) -> bytes:
    """The file with the member at the path set."""
    file = orjson.loads(made())
    place = file
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = to
    return orjson.dumps(file)


def without(*path: str) -> bytes:
    file = orjson.loads(made())
    place = file
    for name in path[:-1]:
        place = place[name]
    del place[path[-1]]
    return orjson.dumps(file)


def renamed(value: Any, rename: Callable[[str], str]) -> Any:
    if not isinstance(value, dict):
        return value
    return {rename(name): renamed(member, rename) for name, member in value.items()}


@each_row("vector", KEYSTORES, ids=lambda vector: vector["name"])
def test_files_of_the_definition_and_of_other_programs(vector: dict[str, Any]) -> None:
    keystore = read_keystore(orjson.dumps(vector["file"]))

    secret = keystore.open(vector["passphrase"].encode())

    assert secret.hex() == vector["key"]
    assert keystore.address in (None, SigningKey(secret).address.lower())


@given(st.integers(min_value=1, max_value=2**255), st.binary(max_size=80))
def test_any_key_comes_back_whatever_the_passphrase(number: int, passphrase: bytes) -> None:
    secret = number.to_bytes(32)

    assert read_keystore(made(secret, passphrase)).open(passphrase) == secret


@each_row("passphrase", [b"", b"open sesame ", b"Open sesame", bytes(1000)])
def test_another_passphrase_does_not_open_a_file(passphrase: bytes) -> None:
    with pytest.raises(PassphraseError, match="the passphrase is wrong, or the file is damaged"):
        read_keystore(made()).open(passphrase)


def test_bytes_that_are_no_key_are_not_put_into_a_file() -> None:
    with pytest.raises(SigningKeyError):
        made(bytes(32))


@each_row(
    "content",
    [
        *(orjson.dumps(renamed(orjson.loads(made()), rename)) for rename in (str.upper, str.capitalize)),
        *(changed("address", to=spelled) for spelled in (ADDRESS, ADDRESS[2:], SigningKey(SECRET).address)),
        *(without("address"), changed("address", to=None), without("id")),
    ],
)
def test_a_file_may_have_names_in_capitals_and_leave_out_optional_members(content: bytes) -> None:
    keystore = read_keystore(content)

    assert keystore.open(PASSPHRASE) == SECRET
    assert keystore.address in (None, ADDRESS)


def test_a_file_under_the_address_of_another_key_is_refused() -> None:
    keystore = read_keystore(changed("address", to="ab" * 20))

    with pytest.raises(
        KeystoreError, match=f"the file names 0x{'ab' * 20}, but its key belongs to {ADDRESS}"
    ):
        keystore.open(PASSPHRASE)


def test_a_file_that_holds_no_private_key_is_refused() -> None:
    file = orjson.loads(made())
    of_zeros = bytes(a ^ b for a, b in zip(read_keystore(made()).ciphertext, SECRET, strict=True))
    file["crypto"]["ciphertext"] = of_zeros.hex()
    file["crypto"]["mac"] = keccak256(read_keystore(made()).kdf.key(PASSPHRASE)[16:] + of_zeros).hex()

    with pytest.raises(KeystoreError, match="the file holds no private key"):
        read_keystore(orjson.dumps(file)).open(PASSPHRASE)


@each_row(
    ("content", "message"),
    [
        (b"", "the file is not JSON"),
        (b"[" * 60_000, "the file is not JSON"),
        (b"[]", "the file must be a JSON object"),
        (b" " * 65_537, "the file is larger than 65536 bytes"),
        (without("version"), "^version is missing"),
        (changed("version", to=1), "^version must be 3, and is 1"),
        (changed("version", to="3"), "^version must be a whole number"),
        (changed("address", to=7), "^address must be 40 hexadecimal digits"),
        (without("crypto"), "^crypto is missing"),
        (changed("crypto", to=[]), "^crypto must be a JSON object"),
        (changed("CRYPTO", to={}), "^the file has a member twice"),
        (changed("crypto", "cipher", to="aes-256-ctr"), "^crypto.cipher must be aes-128-ctr, and is"),
        (without("crypto", "cipherparams"), "^crypto.cipherparams is missing"),
        (changed("crypto", "cipherparams", "iv", to="00" * 15), "iv must have 16 bytes, and has 15"),
        (changed("crypto", "cipherparams", "iv", to=0), "^crypto.cipherparams.iv must be a string"),
        (changed("crypto", "ciphertext", to="0 0 "), "^crypto.ciphertext must be hexadecimal"),
        (changed("crypto", "ciphertext", to=""), "ciphertext must have 1 to 32 bytes, and has 0"),
        (changed("crypto", "ciphertext", to="00" * 33), "ciphertext must have 1 to 32 bytes, and has 33"),
        (changed("crypto", "mac", to="00" * 31), "^crypto.mac must have 32 bytes, and has 31"),
        (changed("crypto", "kdf", to="argon2"), "^crypto.kdf must be scrypt or pbkdf2, and is 'argon2'"),
        (changed("crypto", "kdfparams", "salt", to=""), "salt must have 1 to 256 bytes, and has 0"),
        (changed("crypto", "kdfparams", "dklen", to=64), "^crypto.kdfparams.dklen must be 32, and is 64"),
        (changed("crypto", "kdfparams", "n", to=1.5), "^crypto.kdfparams.n must be a whole number"),
        (without("crypto", "kdfparams", "r"), "^crypto.kdfparams.r is missing"),
        (changed("crypto", "kdfparams", "n", to=3), "^crypto.kdfparams: n must be a power of two"),
        (changed("crypto", "kdfparams", "p", to=0), "^crypto.kdfparams: n must be a power of two"),
    ],
)  # fmt: skip
def test_a_malformed_file_is_refused_with_its_fault(content: bytes, message: str) -> None:
    with pytest.raises(KeystoreError, match=message):
        read_keystore(content)


@each_row(
    ("params", "message"),
    [
        ({"c": 10_000_001, "prf": "hmac-sha256"}, "c must lie between 1 and 10000000, and is 10000001"),
        ({"c": 1, "prf": "hmac-md5"}, "prf must be hmac-sha256, and is 'hmac-md5'"),
        ({"c": 1}, "prf is missing"),
    ],
)
def test_the_other_function_has_its_own_rules(params: dict[str, Any], message: str) -> None:
    file = orjson.loads(changed("crypto", "kdf", to="pbkdf2"))
    file["crypto"]["kdfparams"] = {"dklen": 32, "salt": "00" * 32, **params}

    with pytest.raises(KeystoreError, match=message):
        read_keystore(orjson.dumps(file))


@each_row(
    ("n", "r", "p"),
    [
        (2**21, 8, 1),  # 2 GiB for the table
        (2, 2**20, 2**10),  # 128 GiB for the blocks
        (2**14, 1, 2**13),  # hours
        (2**64, 2**64, 2**64),
    ],
)
def test_a_file_cannot_ask_for_more_memory_or_time_than_there_is(n: int, r: int, p: int) -> None:
    with pytest.raises(CostError, match="ask for too much memory or time"):
        ScryptCost(n, r, p)


def test_files_of_other_programs_are_within_the_bounds() -> None:
    assert (STANDARD_COST.n, LIGHT_COST.n) == (262_144, 4_096)
    assert ScryptCost(n=2**20, r=8, p=1).n == 2**20  # a whole GiB
    assert Pbkdf2(10_000_000, b"salt").rounds == 10_000_000


# A power of two is a valid cost of scrypt.
WRONG_INTEGERS = st.integers(-(2**63), 2**64 - 1).filter(lambda number: number.bit_count() != 1)
LEAVES = st.none() | st.floats() | WRONG_INTEGERS | st.text()


@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5))
def test_any_malformed_value_is_refused(value: Any) -> None:
    for path in (("version",), ("crypto",), ("crypto", "kdfparams"), ("crypto", "kdfparams", "n")):
        with pytest.raises(KeystoreError):
            read_keystore(changed(*path, to=value))
