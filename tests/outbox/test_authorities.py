"""A server reads the machine's certificate authorities for a connection, and believes these alone."""

import os
from pathlib import Path

import aiohttp

from bridge_server.kit.testing.server import ServerProcess
from tests.support.admin_client import ADMIN_TOKEN
from tests.support.certificates import self_signed
from tests.support.engines import engine_environment
from tests.support.rows import each_row
from tests.support.webhook_receiver import WebhookReceiver, open_receiver


async def _tested(data_dir: Path, receiver: WebhookReceiver, authorities: Path) -> tuple[bool, str | None]:
    """Whether a webhook test of a server with these authorities was delivered, and why not."""
    server = ServerProcess(
        data_dir,
        environment={
            **engine_environment(data_dir),
            "BRIDGE_ADMIN_TOKEN": ADMIN_TOKEN,
            "BRIDGE_ALLOW_PRIVATE_WEBHOOKS": "true",
            "SSL_CERT_FILE": str(authorities),
            "SSL_CERT_DIR": os.devnull,
        },
    )
    server.start()
    try:
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {ADMIN_TOKEN}"}) as client,
            client.post(
                f"{server.url}/admin/webhooks/test",
                json={"url": receiver.url().replace("http://", "https://")},
            ) as response,
        ):
            answer = await response.json()
    finally:
        server.close()
    return answer["delivered"], answer["failure"]


@each_row("is_trusted", [True, False])
async def test_a_receiver_is_trusted_if_an_authority_of_the_machine_vouches_for_it(
    tmp_path: Path, is_trusted: bool
) -> None:
    certificate, nobody = tmp_path / "receiver.pem", tmp_path / "nobody.pem"
    nobody.touch()
    async with open_receiver(self_signed("127.0.0.1", certificate)) as receiver:
        delivered, failure = await _tested(tmp_path / "data", receiver, certificate if is_trusted else nobody)

    assert delivered is is_trusted
    assert failure is None if is_trusted else "certificate" in str(failure)
