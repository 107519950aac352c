"""A local Firebase Cloud Messaging: Google's token endpoint and `messages:send`, with Google's checks. A test
chooses its answers: to the next messages (`script`), to messages for one registration token (`by_token`), and
to all other messages (`otherwise`).
"""

import asyncio
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from aiohttp import web
from Crypto.PublicKey import RSA

from bridge_server.kernel.clock import Clock
from tests.support import fakes
from tests.support.credentials import verified

_FIELDS = frozenset({"token", "data", "notification", "android", "webpush", "apns", "fcm_options"})


def _is_valid(message: dict[str, Any]) -> bool:
    """Whether Google would take the message: texts alone, no reserved names, at most 4 KiB."""
    data = message.get("data", {})
    return (
        message.keys() <= _FIELDS
        and all(isinstance(value, str) for value in data.values())
        and not any(name == "from" or name.startswith(("google", "gcm")) for name in data)
        and re.fullmatch(r"[0-9]{1,12}s", message.get("android", {}).get("ttl", "0s")) is not None
        and len(json.dumps([data, message.get("notification")])) <= 4_096
    )


def _error(status: int, general: str, text: str, code: str = "", **headers: str) -> web.Response:
    """An error in the form of Google's APIs, with FCM's code if there is one."""
    kind = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
    details = [{"@type": kind, "errorCode": code}] if code else []
    error = {"code": status, "message": text, "status": general, "details": details}
    return web.json_response({"error": error}, status=status, headers=fakes.with_hyphens(headers))


# Answers of the real service: HTTP status, general status, text.
_REFUSALS = {
    "UNREGISTERED": (404, "NOT_FOUND", "Requested entity was not found."),
    "INVALID_ARGUMENT": (400, "INVALID_ARGUMENT", "Request contains an invalid argument."),
    "SENDER_ID_MISMATCH": (403, "PERMISSION_DENIED", "SenderId mismatch"),
    "QUOTA_EXCEEDED": (429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Messages'."),
    "UNAVAILABLE": (503, "UNAVAILABLE", "The service is currently unavailable."),
    "INTERNAL": (500, "INTERNAL", "Internal error encountered."),
    "THIRD_PARTY_AUTH_ERROR": (401, "UNAUTHENTICATED", "Auth error from APNS or Web Push Service"),
}


class FcmService:
    """Received messages and prepared answers. Start it with `running_fcm_service`."""

    project_id = "demo-wallet"

    def __init__(self, clock: Clock) -> None:
        self.token_lifetime_seconds = 3_600
        self.received: list[ReceivedMessage] = []
        self.script: deque[FcmAnswer] = deque()
        self.otherwise: FcmAnswer = taken
        self.by_token: dict[str, FcmAnswer] = {}
        self.token_script: deque[FcmAnswer] = deque()
        self.token_requests = 0
        self.tokens_issued = 0
        self.unauthenticated_sends = 0
        self.released = asyncio.Event()
        self.endpoint = ""
        self._clock = clock
        self._key = rsa_key()
        self._live: dict[str, int] = {}

    @property
    def token_endpoint(self) -> str:
        return f"{self.endpoint}/token"

    def service_account(self) -> dict[str, str]:
        """The key file of a valid service account, like one of the Firebase console."""
        return {
            "type": "service_account", "project_id": self.project_id, "token_uri": self.token_endpoint,
            "private_key_id": "0123456789abcdef0123456789abcdef01234567",
            "private_key": f"{self._key.export_key(pkcs=8).decode()}\n",
            "client_email": f"pusher@{self.project_id}.iam.gserviceaccount.com",
            "client_id": "100000000000000000001",
        }  # fmt: skip

    def revoke_tokens(self) -> None:
        self._live.clear()

    async def grant(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        self.token_requests += 1
        if self.token_script:
            return await self.token_script.popleft()(self, request)
        try:
            assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
            self._verify(str(form["assertion"]))
        except ValueError as error:
            refused = {"error": "invalid_grant", "error_description": str(error)}
            return web.json_response(refused, status=400)
        self.tokens_issued += 1
        token = f"ya29.local-{self.tokens_issued}"
        self._live[token] = self._clock.now_ms() + self.token_lifetime_seconds * 1_000
        seconds = self.token_lifetime_seconds
        return web.json_response({"access_token": token, "expires_in": seconds, "token_type": "Bearer"})

    async def send(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self._live.get(bearer, 0) <= self._clock.now_ms():
            self.unauthenticated_sends += 1
            return unauthenticated()
        message = json.loads(body)["message"]
        self.received.append(ReceivedMessage(bearer, message))
        if self.script:
            return await self.script.popleft()(self, request)
        if request.match_info["project_id"] != self.project_id:
            text = "Permission 'cloudmessaging.messages.create' denied on resource"
            return _error(403, "PERMISSION_DENIED", text)
        if not _is_valid(message):
            return await refusal("INVALID_ARGUMENT")(self, request)
        return await self.by_token.get(message["token"], self.otherwise)(self, request)

    def _verify(self, assertion: str) -> None:
        header, claims = verified(assertion, self._key.public_key())
        now = self._clock.now_ms() // 1_000
        account = self.service_account()
        scope = "https://www.googleapis.com/auth/firebase.messaging"
        found = header["kid"], claims["iss"], claims["scope"], claims["aud"]
        if found != (account["private_key_id"], account["client_email"], scope, self.token_endpoint):
            raise ValueError("Invalid JWT: another key, issuer, scope or audience")
        if not (claims["exp"] - 3_600 <= claims["iat"] <= now + 60 and now < claims["exp"]):
            raise ValueError("Invalid JWT: Token must be a short-lived token and in a reasonable timeframe")


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    access_token: str
    message: dict[str, Any]


FcmAnswer = Callable[[FcmService, web.Request], Awaitable[web.StreamResponse]]


async def taken(service: FcmService, _: web.Request) -> web.Response:
    number = len(service.received)
    return web.json_response({"name": f"projects/{service.project_id}/messages/0:{number}"})


hang, reset = fakes.hang, fakes.reset


def refusal(error_code: str, error_text: str | None = None, **headers: str) -> FcmAnswer:
    status, general, usual_text = _REFUSALS[error_code]

    async def answer(_: FcmService, __: web.Request) -> web.Response:
        return _error(status, general, error_text or usual_text, error_code, **headers)

    return answer


def invalid_token() -> FcmAnswer:
    return refusal("INVALID_ARGUMENT", "The registration token is not a valid FCM registration token")


def answered(status: int, document: object = None, **headers: str) -> FcmAnswer:
    """Answer with this status and JSON. Underscores in the names of headers become hyphens."""

    async def answer(_: FcmService, __: web.Request) -> web.Response:
        return web.json_response(document, status=status, headers=fakes.with_hyphens(headers))

    return answer


def unauthenticated() -> web.Response:
    text = "Request had invalid authentication credentials. Expected OAuth 2 access token."
    return _error(401, "UNAUTHENTICATED", text)


@lru_cache(maxsize=1)
def rsa_key() -> RSA.RsaKey:
    """The key of the account and of other tests, generated once in a process because that is slow."""
    return RSA.generate(2_048)


@asynccontextmanager
async def running_fcm_service(clock: Clock) -> AsyncIterator[FcmService]:
    service = FcmService(clock)
    app = web.Application()
    app.router.add_post("/token", service.grant)
    app.router.add_post("/v1/projects/{project_id}/messages:send", service.send)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    async with fakes.listening(runner, service.released) as port:
        service.endpoint = f"http://127.0.0.1:{port}"
        yield service
