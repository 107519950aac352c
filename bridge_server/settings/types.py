"""Types of settings, with their validation and error messages."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from bridge_server.kernel.fields import http_url, is_host_and_port, web_origin
from bridge_server.outbox.sender import WebhookSigner
from bridge_server.storage.database import checked_url, url_without_password
from bridge_server.web.addresses import Network

HOUR = 3600
DAY = 24 * HOUR

_IN_MEMORY = ":memory:"

ChainId = Annotated[int, Field(ge=1, lt=2**63)]
Seconds = Annotated[int, Field(gt=0, le=10 * 365 * DAY)]
Rate = Annotated[float, Field(ge=0.001, le=1_000_000)]
Burst = Annotated[int, Field(ge=1, le=1_000_000)]
Duration = Annotated[float, Field(gt=0, le=10 * 365 * DAY)]
Port = Annotated[int, Field(ge=0, le=65535)]

Value = TypeVar("Value")


def setting(default: Value, description: str) -> Value:
    """A field of a model of settings, with its line in the table of settings."""
    field: Value = Field(default, description=description)
    return field


def _host(value: str) -> str:
    if not value.strip():
        raise ValueError("must be an address, such as 127.0.0.1, or 0.0.0.0 for every one")
    return value.strip()


def networks(value: Any) -> Any:
    """Networks in a list, or in a text with commas between them. Raises ValueError."""
    if isinstance(value, str):
        value = _parts(value)
    if not isinstance(value, list | tuple):
        raise ValueError("must be networks such as 10.0.0.0/8, in a list or separated by commas")
    return tuple(ip_network(str(part).strip(), strict=False) for part in value)


def _parts(text: str, around: str = "[] ") -> list[str]:
    """The parts of a text with commas between them, also in the spelling of a list of JSON."""
    return [part.strip() for part in text.strip(around).replace('"', "").split(",") if part.strip()]


def _texts(value: Any, what: str) -> Sequence[str]:
    """The texts of a list, or of a text with commas between them. Raises ValueError."""
    if isinstance(value, str):
        value = _parts(value)
    if not isinstance(value, list | tuple) or not all(isinstance(part, str) for part in value):
        raise ValueError(f"must be {what}, in a list or separated by commas")
    return value


def _directory(value: Path) -> Path:
    if value == Path():
        raise ValueError("must name a directory: the database is never put into the working directory")
    if value.name == _IN_MEMORY:
        raise ValueError(
            "the data is always in files: for a server to throw away, name a temporary directory, such as "
            "`mktemp -d` makes, and delete it afterwards"
        )
    return value.expanduser().absolute()


def _file(value: Path) -> Path:
    if value == Path():
        raise ValueError("must name a file, or be left out")
    return value.expanduser()


def _node_url(value: SecretStr) -> SecretStr:
    url = value.get_secret_value().strip()
    if url.lower().startswith(("ws:", "wss:")):
        raise ValueError("the node is asked over HTTP: name its http or https endpoint")
    try:
        return SecretStr(http_url(url))
    except ValueError:  # its text may repeat a secret
        raise ValueError("must be an http or https URL, such as http://127.0.0.1:8545") from None


class DatabaseUrl(SecretStr):
    """The URL of a PostgreSQL database. Its text has no password."""

    def _display(self) -> str:
        return url_without_password(self.get_secret_value())


def _host_names(value: Any) -> Any:
    if isinstance(value, str):
        text = value.strip()
        if text.startswith('["'):  # a list, and no address such as [::1]
            text = text[1:].removesuffix("]")
        value = _parts(text, around="")
    for part in (value := _texts(value, "names such as wallet.example.org")):
        if not is_host_and_port(part) or ":" in part.rpartition("]")[2] or "*" in part:
            raise ValueError(f"{part} is no host name: write it without scheme, port and path")
    return tuple(part.lower() for part in value)


def _not_empty(value: SecretStr) -> SecretStr:
    text = value.get_secret_value().strip()
    if not text:
        raise ValueError("must not be empty: anybody could send that")
    return SecretStr(text)


def _joined(value: Any) -> Any:
    """Write a list as its text, and an empty list as the empty text. Other values stay as they are."""
    if not isinstance(value, list | tuple):
        return value
    if not all(isinstance(part, str) for part in value):
        raise ValueError("must be texts, in a list or separated by commas")
    return ",".join(value) or None


def _signing_secret(value: SecretStr) -> SecretStr:
    WebhookSigner(value.get_secret_value())
    return value


def _origins(value: Any) -> Any:
    return tuple(map(web_origin, _texts(value, "origins such as https://app.example.org")))


def _project_ids(value: Any) -> Any:
    ids = tuple(_texts(value, "project ids"))
    if not all(ids):
        raise ValueError("must be project ids, in a list or separated by commas")
    return ids


ProjectIds = Annotated[tuple[str, ...], BeforeValidator(_project_ids)]
Origins = Annotated[tuple[str, ...], BeforeValidator(_origins)]
Networks = Annotated[tuple[Network, ...], BeforeValidator(networks)]
HostNames = Annotated[tuple[str, ...], BeforeValidator(_host_names)]
Host = Annotated[str, AfterValidator(_host)]
Url = Annotated[str, AfterValidator(lambda url: http_url(url).rstrip("/"))]
NodeUrl = Annotated[SecretStr, AfterValidator(_node_url)]
"""Secret, because providers put keys into it."""
PostgresUrl = Annotated[
    DatabaseUrl, AfterValidator(lambda url: DatabaseUrl(checked_url(url.get_secret_value().strip())))
]
"""Secret, because of its password; the rest of it is shown."""
Token = Annotated[SecretStr, AfterValidator(_not_empty)]
Tokens = Annotated[Token | None, BeforeValidator(_joined)]
"""Several tokens, in a list or separated by commas."""
SigningSecret = Annotated[SecretStr, AfterValidator(_signing_secret)]
File = Annotated[Path, AfterValidator(_file)]
Directory = Annotated[Path, AfterValidator(_directory)]


def text_of(file: Path | None) -> str:
    """The text of the file; nothing when the setting is not set. Raises ValueError."""
    if file is None:
        return ""
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is no text in UTF-8") from error


def secret_of(setting: SecretStr | None) -> str | None:
    """The secret in plain text; None when the setting is not set."""
    return None if setting is None else setting.get_secret_value()


def faults_of(checks: Iterable[tuple[str, Callable[[], object]]]) -> Iterator[str]:
    """The messages of the ValueErrors that the checks of settings raise, each after the setting's name."""
    for name, check in checks:
        try:
            check()
        except ValueError as error:
            yield f"{name}: {error}"
