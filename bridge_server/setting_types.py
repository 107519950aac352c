"""The kinds of values that settings have: what each may be, and what is said of one that it may not be."""

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import NoDecode

from bridge_server.kernel.fields import http_url, web_origin
from bridge_server.outbox.signature import Signer
from bridge_server.web.client_address import Network

HOUR = 3600
DAY = 24 * HOUR


def networks(value: Any) -> Any:
    """Networks in a list, or in a text with commas between them. Raises ValueError."""
    if isinstance(value, str):
        value = [part for part in value.strip("[] ").replace('"', "").split(",") if part.strip()]
    if not isinstance(value, list | tuple):
        raise ValueError("must be networks such as 10.0.0.0/8, in a list or separated by commas")
    return tuple(ip_network(str(part).strip(), strict=False) for part in value)


def _directory(value: Path) -> Path:
    if value == Path():
        raise ValueError("must name a directory: the database is never put into the working directory")
    return value.expanduser().absolute()


def _file(value: Path) -> Path:
    if value == Path():
        raise ValueError("must name a file, or be left out")
    return value.expanduser()


def _url(value: str) -> str:
    return http_url(value).rstrip("/")


def _not_empty(value: SecretStr) -> SecretStr:
    text = value.get_secret_value().strip()
    if not text:
        raise ValueError("must not be empty: anybody could send that")
    return SecretStr(text)


def _signing_secret(value: SecretStr) -> SecretStr:
    Signer(value.get_secret_value())
    return value


def _origins(value: Any) -> Any:
    if isinstance(value, str):
        value = [part.strip() for part in value.strip("[] ").replace('"', "").split(",") if part.strip()]
    if not isinstance(value, list | tuple) or not all(isinstance(part, str) for part in value):
        raise ValueError("must be origins such as https://app.example.org, in a list or separated by commas")
    return tuple(web_origin(part) for part in value)


Origins = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_origins)]
Networks = Annotated[tuple[Network, ...], NoDecode, BeforeValidator(networks)]
Url = Annotated[str, AfterValidator(_url)]
Token = Annotated[SecretStr, AfterValidator(_not_empty)]
SigningSecret = Annotated[SecretStr, AfterValidator(_signing_secret)]
Seconds = Annotated[int, Field(gt=0, le=10 * 365 * DAY)]
Rate = Annotated[float, Field(ge=0.001, le=1_000_000)]
Burst = Annotated[int, Field(ge=1, le=1_000_000)]
Duration = Annotated[float, Field(gt=0, le=10 * 365 * DAY)]
File = Annotated[Path, AfterValidator(_file)]
Port = Annotated[int, Field(ge=0, le=65535)]
Directory = Annotated[Path, AfterValidator(_directory)]
