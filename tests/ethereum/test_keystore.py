"""Web3 Secret Storage: the definition's vectors, other programs' files, and wrong or hostile ones."""

from collections.abc import Callable
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
from bridge_server.ethereum.signing_key import SigningKey, SigningKeyError
from tests.support.rows import each_row

VECTORS = orjson.loads((Path(__file__).parents[1] / "vectors" / "keystore.json").read_bytes())["vectors"]
FAST = ScryptCost(n=2, r=8, p=1)
SECRET = bytes(31) + b"\x2a"
PASSPHRASE = b"open sesame"
ADDRESS = SigningKey(SECRET).address.lower()


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


@each_row("vector", VECTORS, ids=lambda vector: vector["name"])
def test_files_of_the_definition_and_of_other_programs(vector: dict[str, Any]) -> None:
    keystore = read_keystore(orjson.dumps(vector["file"]))

    secret = keystore.open(vector["passphrase"].encode())

    assert secret.hex() == vector["key"]
    assert keystore.address in (None, SigningKey(secret).address.lower())


def test_a_file_opens_with_the_passphrase_that_it_was_made_with() -> None:
    keystore = read_keystore(made())

    assert keystore.address == ADDRESS
    assert keystore.open(PASSPHRASE) == SECRET


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


@each_row("rename", [str.upper, str.capitalize])
def test_names_of_members_may_have_any_letter_case(rename: Callable[[str], str]) -> None:
    file = orjson.dumps(renamed(orjson.loads(made()), rename))

    assert read_keystore(file).open(PASSPHRASE) == SECRET


@each_row("spelled", [ADDRESS, ADDRESS[2:], SigningKey(SECRET).address])
def test_an_address_may_be_spelled_as_any_program_spells_it(spelled: str) -> None:
    assert read_keystore(changed("address", to=spelled)).address == ADDRESS


@each_row("content", [without("address"), changed("address", to=None), without("id")])
def test_a_file_may_leave_out_optional_members(content: bytes) -> None:
    assert read_keystore(content).open(PASSPHRASE) == SECRET


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
        (b"{", "the file is not JSON"),
        (b"\xff\xfe", "the file is not JSON"),
        (b"[" * 60_000, "the file is not JSON"),
        (b"[]", "the file must be a JSON object"),
        (b"null", "the file must be a JSON object"),
        (b" " * 65_537, "the file is larger than 65536 bytes"),
        (without("version"), "^version is missing"),
        (changed("version", to=1), "^version must be 3, and is 1"),
        (changed("version", to="3"), "^version must be a whole number"),
        (changed("version", to=True), "^version must be a whole number"),
        (changed("address", to=7), "^address must be 40 hexadecimal digits"),
        (changed("address", to="0x12"), "^address must be 40 hexadecimal digits"),
        (without("crypto"), "^crypto is missing"),
        (changed("crypto", to=[]), "^crypto must be a JSON object"),
        (changed("CRYPTO", to={}), "^the file has a member twice"),
        (changed("crypto", "Kdf", to="x"), "^crypto has a member twice"),
        (changed("crypto", "cipher", to="aes-256-ctr"), "^crypto.cipher must be aes-128-ctr, and is"),
        (without("crypto", "cipherparams"), "^crypto.cipherparams is missing"),
        (without("crypto", "cipherparams", "iv"), "^crypto.cipherparams.iv is missing"),
        (changed("crypto", "cipherparams", "iv", to="00" * 15), "iv must have 16 bytes, and has 15"),
        (changed("crypto", "cipherparams", "iv", to=0), "^crypto.cipherparams.iv must be a string"),
        (changed("crypto", "ciphertext", to="0"), "^crypto.ciphertext must be hexadecimal"),
        (changed("crypto", "ciphertext", to="0 0 "), "^crypto.ciphertext must be hexadecimal"),
        (changed("crypto", "ciphertext", to="zz"), "^crypto.ciphertext must be hexadecimal"),
        (changed("crypto", "ciphertext", to=""), "ciphertext must have 1 to 32 bytes, and has 0"),
        (changed("crypto", "ciphertext", to="00" * 33), "ciphertext must have 1 to 32 bytes, and has 33"),
        (changed("crypto", "mac", to="00" * 31), "^crypto.mac must have 32 bytes, and has 31"),
        (changed("crypto", "kdf", to="argon2"), "^crypto.kdf must be scrypt or pbkdf2, and is 'argon2'"),
        (changed("crypto", "kdf", to=None), "^crypto.kdf must be a string"),
        (changed("crypto", "kdfparams", "salt", to=""), "salt must have 1 to 256 bytes, and has 0"),
        (changed("crypto", "kdfparams", "salt", to="00" * 257), "salt must have 1 to 256 bytes"),
        (changed("crypto", "kdfparams", "dklen", to=64), "^crypto.kdfparams.dklen must be 32, and is 64"),
        (changed("crypto", "kdfparams", "n", to=1.5), "^crypto.kdfparams.n must be a whole number"),
        (without("crypto", "kdfparams", "r"), "^crypto.kdfparams.r is missing"),
        (changed("crypto", "kdfparams", "n", to=3), "^crypto.kdfparams: n must be a power of two"),
        (changed("crypto", "kdfparams", "n", to=-2), "^crypto.kdfparams: n must be a power of two"),
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
        ({"c": 0, "prf": "hmac-sha256"}, "c must lie between 1"),
        ({"prf": "hmac-sha256"}, "c is missing"),
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
