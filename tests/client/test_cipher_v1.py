"""Payloads of generation 1.x as @walletconnect/iso-crypto seals and opens them."""

import json
from pathlib import Path
from typing import Any

import pytest

from bridge_server.kit.client import BadPayloadError, Cipher, pairing
from bridge_server.kit.client.v1 import SocketCipher

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "clients_v1.json").read_text("utf-8"))


@pytest.mark.parametrize("vector", VECTORS["payloads"], ids=lambda vector: str(vector["content"])[:20])
def test_a_text_that_the_published_client_sealed_is_opened_and_sealed_alike(
    vector: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    published = SocketCipher(bytes.fromhex(vector["key"]))
    iv = bytes.fromhex(vector["payload"]["iv"])
    monkeypatch.setattr(pairing, "token_bytes", lambda size: iv[:size])

    opened = published.open(vector["payload"])

    assert opened == vector["content"]
    assert published.seal(opened) == vector["payload"]


def test_the_payloads_of_0_7_and_1_x_are_not_taken_for_one_another() -> None:
    key = bytes(32)

    with pytest.raises(BadPayloadError):
        SocketCipher(key).open(Cipher(key).seal({}))
    with pytest.raises(BadPayloadError):
        Cipher(key).open(SocketCipher(key).seal({}))
