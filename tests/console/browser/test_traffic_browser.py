"""Traffic, sessions and clients in Debian's Chromium: live lists, payloads opened in the page, axe-core."""

from pathlib import Path

import orjson

from bridge_server.kit.client import Cipher
from tests.support.browser_tests import BROWSER_MARKS, run_console_specification
from tests.support.server import running_server

_SPECIFICATION = Path(__file__).parent / "traffic.spec.js"
_VECTORS = Path(__file__).parents[2] / "vectors"
_KEY = bytes(range(32))
_ACCOUNT = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
_CALL = {"id": 7, "jsonrpc": "2.0", "method": "personal_sign", "params": ["0x68656c6c6f", _ACCOUNT]}
_HOSTILE = '<img src=x onerror="hacked=1">\u202e'

pytestmark = BROWSER_MARKS


async def test_a_person_watches_the_traffic(tmp_path: Path) -> None:
    cipher = Cipher(_KEY)
    files = {
        **{path.name: path.read_text("utf-8") for path in _VECTORS.glob("clients_v*.json")},
        "sealed.json": orjson.dumps(
            {
                "key": _KEY.hex(),
                "call": cipher.seal(_CALL),
                "hostile": cipher.seal({"method": _HOSTILE}),
            }
        ).decode(),
    }
    async with running_server(tmp_path / "data", console=True, test=True, dev_accounts=True) as server:
        output = await run_console_specification(tmp_path, server, _SPECIFICATION, files)

    assert "15 passed" in output
