"""BIP-32 and BIP-44: the standard's vectors, the accounts that other wallets find, paths that are none."""

from pathlib import Path

import orjson
import pytest

from bridge_server.ethereum.mnemonic import (
    ACCOUNTS_PATH,
    HARDENED,
    DerivationError,
    ExtendedKey,
    master_key,
    mnemonic_seed,
)
from bridge_server.ethereum.signing_key import SigningKey
from tests.support.rows import each_row

VECTORS = Path(__file__).parents[1] / "vectors"
BIP32 = orjson.loads((VECTORS / "bip32.json").read_bytes())["vectors"]
BIP39 = orjson.loads((VECTORS / "bip39.json").read_bytes())["vectors"]
DEVELOPMENT = "test test test test test test test test test test test junk"
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


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
def test_a_mnemonic_has_the_master_key_of_the_standard(vector: dict[str, str]) -> None:
    assert master_key(mnemonic_seed(vector["words"], "TREZOR")) == read_extended_key(vector["extended_key"])


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


def test_hardened_steps_are_written_with_an_apostrophe_or_a_letter() -> None:
    root = master_key(bytes(16))

    assert root.descendant("m/44'") == root.descendant("m/44h") == root.descendant("m/44H")
    assert root.descendant("m/44'") == root.child(44 + HARDENED) != root.child(44)


@each_row("index", [-1, 2 * HARDENED, 2**64])
def test_a_malformed_index_is_refused(index: int) -> None:
    with pytest.raises(DerivationError, match=f"from 0 to 4294967295, and this one is {index}"):
        master_key(bytes(16)).child(index)


@each_row("path", ["", "44'/60'", "M/0", "/m/0"])
def test_a_path_begins_at_the_root(path: str) -> None:
    with pytest.raises(DerivationError, match="a path begins with m"):
        master_key(bytes(16)).descendant(path)


@each_row("step", ["", "-1", "x", "0x1", "01", "1''", "1 ", "\u0661", str(HARDENED), "99999999999999999999"])
def test_a_step_that_is_no_index_is_named(step: str) -> None:
    with pytest.raises(DerivationError, match="a step of a path is a number below 2147483648") as raised:
        master_key(bytes(16)).descendant(f"m/0/{step}/1")

    assert repr(step) in str(raised.value)


@each_row("size", [0, 15, 65])
def test_a_seed_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(DerivationError, match=f"and this one {size}$"):
        master_key(bytes(size))


def test_the_repr_of_a_key_has_no_secret() -> None:
    key = master_key(bytes(16))

    assert repr(key) == "ExtendedKey()"
