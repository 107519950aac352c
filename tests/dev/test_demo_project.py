"""The project that is always there, with a secret that is known beforehand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.dev.conftest import DEMO, SECRET, DevServer, running_dev

NOTIFICATION = {"type": "news", "title": "Hello", "body": "A first notification"}
ACCOUNT = "eip155:1:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"


async def notify(dev: DevServer, secret: str = SECRET, kind: str = "news") -> tuple[int, Any]:
    fields = {"notification": {**NOTIFICATION, "type": kind}, "accounts": [ACCOUNT]}
    return await dev.ask("POST", f"{dev.url}/demo/notify", fields, Authorization=f"Bearer {secret}")


async def test_the_demo_project_notifies_with_each_of_its_types(dev: DevServer) -> None:
    for kind in DEMO.types:
        status, answer = await notify(dev, kind=kind)
        assert (status, answer["not_found"]) == (200, [ACCOUNT])
    assert (await notify(dev, kind="other"))[0] == 400


async def test_a_reset_leaves_it_there(dev: DevServer) -> None:
    await dev.control.reset()

    assert (await notify(dev))[0] == 200


async def test_the_demo_project_stays_over_its_data(tmp_path: Path) -> None:
    for _ in range(2):
        async with running_dev(tmp_path / "data") as dev:
            assert (await notify(dev))[0] == 200


async def test_a_secret_that_is_new_is_added_and_the_oldest_goes(tmp_path: Path) -> None:
    secrets = ["bsk_first", "bsk_second", "bsk_third"]
    for secret in secrets:
        async with running_dev(tmp_path / "data", replace(DEMO, secret=secret)) as dev:
            assert (await notify(dev, secret))[0] == 200
            valid = [each for each in secrets if (await notify(dev, each))[0] == 200]

    assert valid == ["bsk_second", "bsk_third"]


async def test_without_one_there_is_none(tmp_path: Path) -> None:
    async with running_dev(tmp_path / "data", demo=None) as dev:
        assert (await notify(dev))[0] == 401
