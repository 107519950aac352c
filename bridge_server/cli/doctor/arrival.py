"""Whether the addresses of clients arrive through the proxy. The server itself says what arrived."""

from typing import Any
from urllib.parse import urlsplit

from bridge_server.cli.doctor.examination import Examination
from bridge_server.cli.doctor.findings import Finding, ok, warn
from bridge_server.cli.options import CommandError
from bridge_server.cli.running_admin import answer_of
from bridge_server.kernel.ip_addresses import is_loopback
from bridge_server.web.client_address import UNKNOWN

_SUBJECT = "proxy"
_SEND_IT = "have it send X-Forwarded-For (nginx: proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for)"


async def check_arrival(seen: Examination, public: str) -> list[Finding]:
    """One finding: how a request through the public URL came to the server."""
    if seen.settings.admin_token is None:
        text = "without admin_token the server cannot say whether client addresses arrive"
        if seen.settings.trusted_proxies:
            return [ok(_SUBJECT, text)]
        return [warn(_SUBJECT, text, "if a proxy is in front, name it in trusted_proxies")]
    if not _is_private(public):
        text = f"{public} is not https: the admin token is not sent over it to see what arrives"
        return [warn(_SUBJECT, text, "serve it by https, and correct public_url")]
    try:
        arrived = await answer_of(seen.settings, public, "/admin/clients/me")
    except CommandError as error:
        return [warn(_SUBJECT, f"whether client addresses arrive is not known: {error.message}")]
    return [_judged(arrived)]


def _is_private(url: str) -> bool:
    """Whether requests to the URL cannot be read on their way."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def _judged(arrived: dict[str, Any]) -> Finding:
    peer, address = arrived["peer"], arrived["address"]
    if arrived["forwarded_for"] is None:
        return warn(_SUBJECT, "X-Forwarded-For does not arrive: everybody is one client", _SEND_IT)
    if not arrived["trusted"]:
        text = f"X-Forwarded-For of {peer} is not believed: everybody is one client"
        return warn(_SUBJECT, text, f'trusted_proxies = ["{peer}"]')
    if address == UNKNOWN:
        text = f"X-Forwarded-For has no address ({arrived['forwarded_for'][:60]}): everybody is one client"
        return warn(_SUBJECT, text, _SEND_IT)
    return ok(_SUBJECT, "client addresses arrive")
