"""The message by which an account signs in (EIP-4361), read strictly and written back."""

import re
from collections.abc import Callable
from typing import TypeVar

from bridge_server.ethereum.address import checksummed
from bridge_server.kernel.fields import is_host_and_port, is_scheme, is_segment, is_uri
from bridge_server.kernel.instants import milliseconds_of, rfc3339
from bridge_server.kernel.values import dataclass

Value = TypeVar("Value")

_SENTENCE = " wants you to sign in with your Ethereum account:"
_RESOURCES = "Resources:"

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_STATEMENT = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;= ]*")  # reserved, unreserved and the space
_CHAIN_ID = re.compile(r"[0-9]{1,32}")  # as long as CAIP-2 lets a chain's reference be
_NONCE = re.compile(r"[A-Za-z0-9]{8,128}")


class SignInMessageError(ValueError):
    """The text is not a sign-in message; the error names the wrong line and its rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInMessage:
    """The fields of a message. None means that the line is absent, which an empty text does not."""

    scheme: str | None = None
    domain: str
    address: str
    statement: str | None = None
    uri: str
    version: str = "1"
    chain_id: int
    nonce: str
    issued_at_ms: int
    expires_at_ms: int | None = None
    not_before_ms: int | None = None
    request_id: str | None = None
    resources: tuple[str, ...] = ()


def parse_sign_in_message(text: str) -> SignInMessage:
    """Read the message that was signed; raises SignInMessageError when it breaks EIP-4361's grammar. Stricter
    than the grammar: the domain names a host and no user, the address carries its checksum (EIP-55), a chain
    id has at most 32 digits and a nonce 128. The caller judges the fields: the domain, the nonce, the times.
    """
    lines = _Lines(text)
    scheme, domain = _origin(lines)
    message = SignInMessage(  # each argument reads the next line: their order is the message's
        scheme=scheme,
        domain=domain,
        address=_address(lines),
        statement=_statement(lines),
        uri=lines.field("URI", _uri),
        version=lines.field("Version", _version),
        chain_id=int(lines.field("Chain ID", _chain_id)),
        nonce=lines.field("Nonce", _nonce),
        issued_at_ms=lines.field("Issued At", milliseconds_of),
        expires_at_ms=lines.optional_field("Expiration Time", milliseconds_of),
        not_before_ms=lines.optional_field("Not Before", milliseconds_of),
        request_id=lines.optional_field("Request ID", _request_id),
        resources=_resources(lines),
    )
    lines.end()
    return message


def write_sign_in_message(message: SignInMessage) -> str:
    """Spell the message for signing; raises ValueError if reading it would give other fields."""
    origin = message.domain if message.scheme is None else f"{message.scheme}://{message.domain}"
    lines = [origin + _SENTENCE, message.address, ""]
    if message.statement is not None:
        lines.append(message.statement)
    lines += [
        "",
        f"URI: {message.uri}",
        f"Version: {message.version}",
        f"Chain ID: {message.chain_id}",
        f"Nonce: {message.nonce}",
        f"Issued At: {rfc3339(message.issued_at_ms)}",
    ]
    times = (("Expiration Time", message.expires_at_ms), ("Not Before", message.not_before_ms))
    lines += [f"{label}: {rfc3339(moment_ms)}" for label, moment_ms in times if moment_ms is not None]
    if message.request_id is not None:
        lines.append(f"Request ID: {message.request_id}")
    if message.resources:
        lines += [_RESOURCES, *(f"- {resource}" for resource in message.resources)]
    text = "\n".join(lines)
    if parse_sign_in_message(text) != message:
        raise SignInMessageError("a field holds a line break and more: it would be read as other fields")
    return text


class _Lines:
    """The lines of a message, read from first to last."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._number = 0

    def next(self) -> str:
        """The next line; after the last, an error."""
        self._number += 1
        if self._number > len(self._lines):
            raise self.fault("is missing: the message ends too soon")
        return self._lines[self._number - 1]

    def peek(self) -> str:
        """The line that `next` will return; after the last, an empty one."""
        return "" if self.at_end() else self._lines[self._number]

    def field(self, label: str, read: Callable[[str], Value]) -> Value:
        """The value of the next line, which must have this label."""
        prefix = f"{label}: "
        line = self.next()
        if not line.startswith(prefix):
            raise self.fault(f"must begin with '{prefix}'")
        try:
            return read(line.removeprefix(prefix))
        except ValueError as error:
            raise self.fault(f"{label} {error}") from None

    def optional_field(self, label: str, read: Callable[[str], Value]) -> Value | None:
        """The value of the next line, or None if the line has another label."""
        return self.field(label, read) if self.peek().startswith(f"{label}: ") else None

    def at_end(self) -> bool:
        return self._number == len(self._lines)

    def end(self) -> None:
        """Raise an error if there is another line."""
        if not self.at_end():
            self._number += 1
            raise self.fault(
                "must not be there. After 'Issued At: ' come at most 'Expiration Time: ', 'Not Before: ', "
                "'Request ID: ' and 'Resources:', in this order, and no line break at the end"
            )

    def fault(self, detail: str) -> SignInMessageError:
        """The error of the line that was read last."""
        return SignInMessageError(f"line {self._number}: {detail}")


def _origin(lines: _Lines) -> tuple[str | None, str]:
    line = lines.next()
    if not line.endswith(_SENTENCE):
        raise lines.fault(
            f"must be a domain, such as example.org, then '{_SENTENCE}'; lines end with LF, not CR LF"
        )
    scheme, separator, domain = line.removesuffix(_SENTENCE).rpartition("://")
    if separator and not is_scheme(scheme):
        raise lines.fault("what stands before :// must be a scheme (RFC 3986), such as https")
    if not is_host_and_port(domain):
        raise lines.fault(
            "the domain must be a host, perhaps with a port, without a user (RFC 3986): example.org, for one"
        )
    return (scheme if separator else None), domain


def _address(lines: _Lines) -> str:
    address = lines.next()
    if _ADDRESS.fullmatch(address) is None:
        raise lines.fault("must be the account's address: 0x and 40 hexadecimal digits")
    digits = address[2:]
    expected = checksummed(f"0x{digits.lower()}")
    if address == expected:
        return address
    if digits in (digits.lower(), digits.upper()):
        raise lines.fault(f"the address must be spelled with its checksum (EIP-55): {expected}")
    raise lines.fault("the checksum of the address is wrong (EIP-55): it may be mistyped")


def _statement(lines: _Lines) -> str | None:
    """The statement between its two empty lines; without one, the two are still there."""
    if lines.next() != "":
        raise lines.fault("must be empty, after the address")
    statement = lines.next()
    if statement == "" and lines.peek() != "":
        return None
    if _STATEMENT.fullmatch(statement) is None:
        raise lines.fault(
            "the statement must be ASCII: letters, digits, spaces and -._~:/?#[]@!$&'()*+,;= (EIP-4361)"
        )
    if lines.next() != "":
        raise lines.fault(
            "must be empty: a statement is one line between two empty ones; without it, both are still there"
        )
    return statement


def _resources(lines: _Lines) -> tuple[str, ...]:
    if not lines.peek().startswith(_RESOURCES):
        return ()
    if lines.next() != _RESOURCES:
        raise lines.fault(f"must be '{_RESOURCES}' and nothing else: each resource has a separate line")
    resources = []
    while not lines.at_end():
        marker, resource = (line := lines.next())[:2], line[2:]
        if marker != "- " or not is_uri(resource):
            raise lines.fault("must be '- ' and a URI (RFC 3986): only resources follow 'Resources:'")
        resources.append(resource)
    return tuple(resources)


def _text(is_valid: Callable[[str], object], rule: str) -> Callable[[str], str]:
    """Reads a value that is valid; `rule` is the fault of any other."""

    def read(text: str) -> str:
        if not is_valid(text):
            raise ValueError(rule)
        return text

    return read


_uri = _text(is_uri, "must be a URI with its scheme (RFC 3986), such as https://example.org/login")
_version = _text("1".__eq__, "must be 1")
_chain_id = _text(_CHAIN_ID.fullmatch, "must be 1 to 32 decimal digits, such as 1")
_nonce = _text(_NONCE.fullmatch, "must be 8 to 128 letters and digits")
_request_id = _text(is_segment, "must consist of characters of a URI's path segment (RFC 3986, pchar)")
