"""Private keys from texts: their spellings, and errors that do not repeat them."""

import pytest

from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.wallet.accounts import (
    PrivateKeyError,
    development_keys,
    read_private_key,
    read_private_keys,
)
from tests.support.rows import each_row

ONE, TWO = f"{1:064x}", f"{2:064X}"
ADDRESSES = [SigningKey(number.to_bytes(32)).address for number in (1, 2)]


@each_row("text", [ONE, f"0x{ONE}", f"0X{ONE}", f" {ONE}\n"])
def test_a_key_is_64_digits_with_a_prefix_or_without(text: str) -> None:
    assert read_private_key(text) == (1).to_bytes(32)


@each_row(
    "text",
    [
        f"{ONE},{TWO}",
        f"0x{ONE} , 0x{TWO},",
        f"{ONE}\n\n{TWO}\n",
        f"# mine\n{ONE} # the first, {TWO}\r\n{TWO}",
    ],
)
def test_keys_are_separated_by_commas_spaces_or_lines(text: str) -> None:
    assert [key.address for key in read_private_keys(text)] == ADDRESSES


@each_row("text", ["", "\n", "# none yet", ","])
def test_a_text_may_have_no_keys(text: str) -> None:
    assert read_private_keys(text) == []


@each_row("bad", ["5ec7e7", f"{ONE}0", "\u0661" * 64, "g" * 64, f"0x0x{ONE[4:]}"])
def test_a_malformed_key_is_named_by_its_place_alone(bad: str) -> None:
    with pytest.raises(PrivateKeyError, match=r"^key 2 of 3: a private key has 64 hexadecimal") as raised:
        read_private_keys(f"{ONE},{bad},{TWO}")

    assert bad not in str(raised.value)


@each_row("bad", ["0" * 64, "f" * 64])
def test_a_number_beyond_the_curve_is_no_key(bad: str) -> None:
    with pytest.raises(PrivateKeyError, match=r"^key 1 of 1: a private key lies between 0 and the order"):
        read_private_keys(bad)


def test_development_keys_are_the_keys_of_local_nodes() -> None:
    keys = development_keys("test test test test test test test test test test test junk", 10)

    assert len(keys) == 10
    assert keys[0].address == "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
    assert keys[9].address == "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720"
