"""Private keys in files, under a passphrase: Web3 Secret Storage, version 3, as geth writes and reads it.

The cipher's key is derived from the passphrase by a slow function (scrypt or PBKDF2), against guessing. Both
run beside other threads. Their costs are bounded, because a file may come from anybody.
"""

import hashlib
import hmac
import re
from collections.abc import Collection
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

import orjson

from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.signing_key import SECRET_BYTES, SigningKey, SigningKeyError
from bridge_server.kernel.values import dataclass

KEY_BYTES = 32

_MOST_ROUNDS = 10_000_000
_MOST_MEMORY_BYTES = 2**30
_MOST_STEPS = 2**26
_MOST_BLOCKS = 2**14

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


class CostError(ValueError):
    """The parameters are invalid, or need too much time or memory; the text names the fault."""


@dataclass(frozen=True, slots=True)
class ScryptCost:
    """The parameters of RFC 7914: it takes 128·n·r bytes of memory, and time like n·r·p. Raises CostError
    when n is no power of two, or the whole too much: above 1 GiB, or 32 times the standard.
    """

    n: int
    r: int
    p: int

    def __post_init__(self) -> None:
        if self.n < 2 or self.n & (self.n - 1) or self.r < 1 or self.p < 1:
            raise CostError("n must be a power of two from 2 on, r and p at least 1")
        is_too_large = self.memory_bytes > _MOST_MEMORY_BYTES or self.r * self.p > _MOST_BLOCKS
        if is_too_large or self.n * self.r * self.p > _MOST_STEPS:
            raise CostError(f"n = {self.n}, r = {self.r}, p = {self.p} ask for too much memory or time")

    @property
    def memory_bytes(self) -> int:
        return 128 * self.n * self.r


STANDARD_COST = ScryptCost(n=2**18, r=8, p=1)  # the cost that geth uses: about a second and 256 MiB

LIGHT_COST = ScryptCost(n=2**12, r=8, p=6)  # geth's `--lightkdf`: about a tenth of the time, and 4 MiB


class Scrypt(NamedTuple):
    """RFC 7914."""

    cost: ScryptCost
    salt: bytes

    def key(self, passphrase: bytes) -> bytes:
        """The 32 bytes that follow from the passphrase. Raises CostError when there is too little memory."""
        try:
            return self._key(passphrase)
        except ValueError as error:  # all else that can be wrong is known to be right
            raise CostError(f"there are not {self.cost.memory_bytes >> 20} MiB of memory for it") from error

    def _key(self, passphrase: bytes) -> bytes:
        n, r, p = self.cost.n, self.cost.r, self.cost.p
        if n.bit_length() <= 16 * r:
            limit = self.cost.memory_bytes + 128 * r * (p + 2)
            return hashlib.scrypt(passphrase, salt=self.salt, n=n, r=r, p=p, maxmem=limit, dklen=KEY_BYTES)
        # RFC 7914 forbids these, and OpenSSL refuses them. The keystore's own test vector is one of them.
        # Such files are rare: the module that reads them, 0.7 MiB, is imported when there is one.
        scrypt = import_module("Crypto.Protocol.KDF").scrypt
        return bytes(scrypt(passphrase, self.salt, KEY_BYTES, N=n, r=r, p=p))


@dataclass(frozen=True, slots=True)
class Pbkdf2:
    """RFC 8018, with HMAC-SHA256. Raises CostError for no rounds, and for more than ten million."""

    rounds: int
    salt: bytes

    def __post_init__(self) -> None:
        if not 1 <= self.rounds <= _MOST_ROUNDS:
            raise CostError(f"c must lie between 1 and {_MOST_ROUNDS}, and is {self.rounds}")

    def key(self, passphrase: bytes) -> bytes:
        """The 32 bytes that follow from the passphrase."""
        return hashlib.pbkdf2_hmac("sha256", passphrase, self.salt, self.rounds, KEY_BYTES)


Kdf: TypeAlias = Scrypt | Pbkdf2


class KeystoreError(ValueError):
    """The file is not a valid keystore; the text names the fault."""


class PassphraseError(KeystoreError):
    """The passphrase does not fit the file."""


class Keystore(NamedTuple):
    """A keystore file that was read. `address` is in lower case with `0x`; None when the file has none."""

    address: str | None
    kdf: Kdf
    iv: bytes
    ciphertext: bytes
    mac: bytes

    def open(self, passphrase: bytes) -> bytes:
        """The private key, in 32 bytes; takes a second, beside other threads. Raises PassphraseError,
        KeystoreError when the key does not belong to the file's address, CostError when memory is too little.
        """
        key = self.kdf.key(passphrase)
        if not hmac.compare_digest(_mac(key, self.ciphertext), self.mac):
            raise PassphraseError("the passphrase is wrong, or the file is damaged")
        secret = _encrypted(self.ciphertext, key, self.iv).rjust(SECRET_BYTES, b"\0")
        try:
            address = SigningKey(secret).address.lower()
        except SigningKeyError as error:
            raise KeystoreError(f"the file holds no private key: {error}") from error
        if self.address not in (None, address):
            raise KeystoreError(f"the file names {self.address}, but its key belongs to {address}")
        return secret


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
    """The file of a private key of 32 bytes. Takes as long as opening it. `salt` and `iv` are 32 and 16
    random bytes. Raises SigningKeyError, CostError.
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
    aes = import_module("Crypto.Cipher.AES")  # late: most servers have no such file
    cipher = aes.new(key[:_CIPHER_KEY_BYTES], aes.MODE_CTR, nonce=b"", initial_value=iv)
    return bytes(cipher.encrypt(data))


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
    """A JSON object of the file, and its place for errors. Names may have any letter case, as for geth."""

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
