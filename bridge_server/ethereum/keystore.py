"""Private keys in files, under a passphrase: Web3 Secret Storage, version 3, as geth writes and reads it."""

import hmac
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import orjson
from Crypto.Cipher import AES

from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.keystore_kdf import KEY_BYTES, CostError, Kdf, Pbkdf2, Scrypt, ScryptCost
from bridge_server.ethereum.signing_key import SECRET_BYTES, SigningKey, SigningKeyError

IV_BYTES = 16
SALT_BYTES = 32
LARGEST_FILE_BYTES = 64 * 1024

_VERSION = 3
_CIPHER = "aes-128-ctr"
_PRF = "hmac-sha256"
_CIPHER_KEY_BYTES = 16
_MAC_BYTES = 32
_SALT_SIZES = range(1, 257)
_SECRET_SIZES = range(1, SECRET_BYTES + 1)  # some writers left out the zeros that a key begins with
_ADDRESS = re.compile(r"(?:0[xX])?([0-9a-fA-F]{40})")
_HEX = re.compile(r"(?:0[xX])?((?:[0-9a-fA-F]{2})*)")


class KeystoreError(ValueError):
    """The file is not a valid keystore; the text names the fault."""


class PassphraseError(KeystoreError):
    """The passphrase does not fit the file."""


@dataclass(frozen=True, slots=True)
class Keystore:
    """A keystore file that was read. `address` is in lower case with `0x`; None when the file has none."""

    address: str | None
    kdf: Kdf
    iv: bytes
    ciphertext: bytes
    mac: bytes

    def open(self, passphrase: bytes) -> bytes:
        """The private key, in 32 bytes. Takes a second and runs beside other threads.

        Raises PassphraseError; KeystoreError when the key does not belong to the file's address;
        CostError when there is too little memory.
        """
        key = self.kdf.key(passphrase)
        if not hmac.compare_digest(_mac(key, self.ciphertext), self.mac):
            raise PassphraseError("the passphrase is wrong, or the file is damaged")
        secret = _encrypted(self.ciphertext, key, self.iv).rjust(SECRET_BYTES, b"\0")
        self._check(secret)
        return secret

    def _check(self, secret: bytes) -> None:
        try:
            address = SigningKey(secret).address.lower()
        except SigningKeyError as error:
            raise KeystoreError(f"the file holds no private key: {error}") from error
        if self.address not in (None, address):
            raise KeystoreError(f"the file names {self.address}, but its key belongs to {address}")


def read_keystore(content: bytes) -> Keystore:
    """Read a file; nothing slow happens yet. Raises KeystoreError."""
    if len(content) > LARGEST_FILE_BYTES:
        raise KeystoreError(f"the file is larger than {LARGEST_FILE_BYTES} bytes")
    try:
        file = _Members(orjson.loads(content), "the file")
    except orjson.JSONDecodeError as error:
        raise KeystoreError(f"the file is not JSON: {error}") from error
    if file.number("version") != _VERSION:
        raise KeystoreError(f"version must be {_VERSION}, and is {file.number('version')}")
    crypto = file.members("crypto")
    crypto.check("cipher", _CIPHER)
    return Keystore(
        _address(file.optional("address")),
        _kdf(crypto),
        crypto.members("cipherparams").data("iv", (IV_BYTES,)),
        crypto.data("ciphertext", _SECRET_SIZES),
        crypto.data("mac", (_MAC_BYTES,)),
    )


def make_keystore(
    secret: bytes, passphrase: bytes, *, cost: ScryptCost, salt: bytes, iv: bytes, uuid: str
) -> bytes:
    """The file of a private key of 32 bytes. Takes as long as opening it.

    `salt` and `iv` are 32 and 16 random bytes. Raises SigningKeyError, CostError.
    """
    address = SigningKey(secret).address.lower()
    key = Scrypt(cost, salt).key(passphrase)
    ciphertext = _encrypted(secret, key, iv)
    crypto = {
        "cipher": _CIPHER,
        "ciphertext": ciphertext.hex(),
        "cipherparams": {"iv": iv.hex()},
        "kdf": "scrypt",
        "kdfparams": {"dklen": KEY_BYTES, "n": cost.n, "p": cost.p, "r": cost.r, "salt": salt.hex()},
        "mac": _mac(key, ciphertext).hex(),
    }
    file = {"address": address.removeprefix("0x"), "crypto": crypto, "id": uuid, "version": _VERSION}
    return orjson.dumps(file)


def _mac(key: bytes, ciphertext: bytes) -> bytes:
    return keccak256(key[_CIPHER_KEY_BYTES:] + ciphertext)


def _encrypted(data: bytes, key: bytes, iv: bytes) -> bytes:
    """AES in counter mode, which decrypts as it encrypts."""
    cipher = AES.new(key[:_CIPHER_KEY_BYTES], AES.MODE_CTR, nonce=b"", initial_value=iv)
    return cipher.encrypt(data)


def _address(value: Any) -> str | None:
    if value is None or value == "":
        return None
    spelled = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if spelled is None:
        raise KeystoreError("address must be 40 hexadecimal digits")
    return f"0x{spelled[1].lower()}"


def _kdf(crypto: "_Members") -> Kdf:
    name, params = crypto.text("kdf"), crypto.members("kdfparams")
    salt = params.data("salt", _SALT_SIZES)
    if params.number("dklen") != KEY_BYTES:
        raise KeystoreError(f"crypto.kdfparams.dklen must be {KEY_BYTES}, and is {params.number('dklen')}")
    try:
        if name == "scrypt":
            return Scrypt(ScryptCost(params.number("n"), params.number("r"), params.number("p")), salt)
        if name == "pbkdf2":
            params.check("prf", _PRF)
            return Pbkdf2(params.number("c"), salt)
    except CostError as error:
        raise KeystoreError(f"crypto.kdfparams: {error}") from error
    raise KeystoreError(f"crypto.kdf must be scrypt or pbkdf2, and is {name!r}")


class _Members:
    """A JSON object of the file, and its place for errors about its members.

    Names may have any letter case, as geth reads them.
    """

    def __init__(self, value: Any, place: str, prefix: str = "") -> None:
        if not isinstance(value, dict):
            raise KeystoreError(f"{place} must be a JSON object")
        self._values = {name.lower(): member for name, member in value.items()}
        if len(self._values) != len(value):
            raise KeystoreError(f"{place} has a member twice, in different letter case")
        self._prefix = prefix

    def optional(self, name: str) -> Any:
        return self._values.get(name)

    def members(self, name: str) -> "_Members":
        place = f"{self._prefix}{name}"
        return _Members(self._member(name), place, f"{place}.")

    def text(self, name: str) -> str:
        value = self._member(name)
        if not isinstance(value, str):
            raise KeystoreError(f"{self._prefix}{name} must be a string")
        return value

    def check(self, name: str, only: str) -> None:
        if self.text(name) != only:
            raise KeystoreError(f"{self._prefix}{name} must be {only}, and is {self.text(name)!r}")

    def number(self, name: str) -> int:
        value = self._member(name)
        if type(value) is not int:
            raise KeystoreError(f"{self._prefix}{name} must be a whole number")
        return value

    def data(self, name: str, sizes: Collection[int]) -> bytes:
        digits = _HEX.fullmatch(self.text(name))
        if digits is None:
            raise KeystoreError(f"{self._prefix}{name} must be hexadecimal")
        data = bytes.fromhex(digits[1])
        if len(data) not in sizes:
            size = f"{max(sizes)}" if len(sizes) == 1 else f"{min(sizes)} to {max(sizes)}"
            raise KeystoreError(f"{self._prefix}{name} must have {size} bytes, and has {len(data)}")
        return data

    def _member(self, name: str) -> Any:
        if name not in self._values:
            raise KeystoreError(f"{self._prefix}{name} is missing")
        return self._values[name]
