"""The local service is as strict as the real one: what it takes, that one takes too."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson
import pytest
from Crypto.PublicKey import RSA

from bridge_server.push.keys import rs256
from tests.support.clock import ManualClock
from tests.support.fcm_service import GRANT_TYPE, SCOPE, FcmService, running_fcm_service
from tests.support.rows import each_row

NOW = 1_800_000_000


@pytest.fixture
async def service() -> AsyncIterator[FcmService]:
    async with running_fcm_service(ManualClock()) as service:
        yield service


def assertion(service: FcmService, key: RSA.RsaKey | None = None, **changes: Any) -> str:
    account = service.service_account()
    header = {"kid": changes.pop("kid", account["private_key_id"])}
    claims = {
        "iss": account["client_email"],
        "scope": SCOPE,
        "aud": service.token_endpoint,
        "iat": NOW,
        "exp": NOW + 3_600,
        **changes,
    }
    return rs256(header, claims, key or RSA.import_key(account["private_key"]))


async def ask(url: str, **request: Any) -> tuple[int, dict[str, Any]]:
    async with aiohttp.ClientSession() as session, session.post(url, **request) as response:
        return response.status, orjson.loads(await response.read())


async def granted(
    service: FcmService, token: str, grant_type: str = GRANT_TYPE
) -> tuple[int, dict[str, Any]]:
    return await ask(service.token_endpoint, data={"grant_type": grant_type, "assertion": token})


async def sent(service: FcmService, message: object) -> tuple[int, dict[str, Any]]:
    _, grant = await granted(service, assertion(service))
    url = f"{service.endpoint}/v1/projects/{service.project_id}/messages:send"
    headers = {"Authorization": f"Bearer {grant['access_token']}"}
    return await ask(url, json={"message": message}, headers=headers)


async def test_a_sound_assertion_gets_a_token(service: FcmService) -> None:
    status, document = await granted(service, assertion(service))

    assert (status, document["expires_in"], document["token_type"]) == (200, 3_600, "Bearer")


@each_row(
    "changes",
    [
        {"iss": "somebody@else.example"},
        {"scope": "https://www.googleapis.com/auth/drive"},
        {"aud": "https://oauth2.googleapis.com/token"},
        {"exp": NOW + 3_601},
        {"exp": NOW},
        {"iat": NOW + 61},
        {"kid": "another"},
    ],
)
async def test_an_assertion_with_a_wrong_claim_gets_none(
    service: FcmService, changes: dict[str, Any]
) -> None:
    status, document = await granted(service, assertion(service, **changes))

    assert (status, document["error"]) == (400, "invalid_grant")


async def test_an_assertion_of_another_key_gets_none(service: FcmService) -> None:
    status, document = await granted(service, assertion(service, RSA.generate(1_024)))

    assert (status, document["error"]) == (400, "invalid_grant")


@each_row("text", ["", "a.b", "a.b.c", "e30.e30.e30="])
async def test_malformed_assertion_gets_no_access_token(service: FcmService, text: str) -> None:
    assert (await granted(service, text))[0] == 400


async def test_another_grant_type_gets_none(service: FcmService) -> None:
    _, document = await granted(service, assertion(service), "client_credentials")

    assert document["error"] == "unsupported_grant_type"


async def test_a_message_without_a_token_of_access_is_not_taken(service: FcmService) -> None:
    url = f"{service.endpoint}/v1/projects/{service.project_id}/messages:send"

    status, document = await ask(url, json={"message": {"token": "x"}})

    assert (status, document["error"]["status"]) == (401, "UNAUTHENTICATED")
    assert service.received == []


@each_row(
    ("message", "field"),
    [
        ({"token": "x", "priority": "high"}, "message.priority"),
        ({"notification": {}}, "message"),
        ({"token": "x", "data": {"n": 5}}, "message.data[0].value"),
        ({"token": "x", "data": {"from": "a"}}, "message.data.from"),
        ({"token": "x", "data": {"google.c": "a"}}, "message.data.google.c"),
        ({"token": "x", "android": {"ttl": "1d"}}, "message.android.ttl"),
    ],
)
async def test_a_message_of_another_form_is_not_taken(
    service: FcmService, message: object, field: str
) -> None:
    status, document = await sent(service, message)

    assert (status, document["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert document["error"]["details"][0]["fieldViolations"][0]["field"] == field


@each_row(("size", "status"), [(3_900, 200), (4_100, 400)])
async def test_a_message_has_at_most_four_kibibytes(service: FcmService, size: int, status: int) -> None:
    assert (await sent(service, {"token": "x", "data": {"a": "x" * size}}))[0] == status
