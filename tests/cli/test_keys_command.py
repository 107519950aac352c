"""`keys vapid`: a pair that is ready to paste."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.cli.conftest import Invoke
from tests.support.browser import base64url, from_base64url


def public_key_of(private_key: str) -> str:
    """Computed by another library than the server's."""
    key = ec.derive_private_key(int.from_bytes(from_base64url(private_key)), ec.SECP256R1())
    return base64url(key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))


def variables(out: str) -> dict[str, str]:
    """The lines that a shell or a service manager would take for settings."""
    lines = [line for line in out.splitlines() if "=" in line and not line.startswith("#")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def test_the_two_halves_fit_together(invoke: Invoke) -> None:
    result = invoke("keys", "vapid")

    settings, public_key = variables(result.stdout), result.stdout.splitlines()[-1]
    assert (result.exit_code, result.stderr) == (0, "")
    assert public_key == public_key_of(settings["BRIDGE_VAPID_PRIVATE_KEY"])
    assert len(from_base64url(public_key)) == 65


def test_json_has_the_pair(invoke: Invoke) -> None:
    result = invoke("keys", "vapid", "--json")

    pair = json.loads(result.stdout)
    assert pair.keys() == {"public_key", "private_key"}
    assert pair["public_key"] == public_key_of(pair["private_key"])


def test_each_pair_is_another(invoke: Invoke) -> None:
    pairs = [json.loads(invoke("keys", "vapid", "--json").stdout) for _ in range(3)]

    assert len({pair["private_key"] for pair in pairs}) == 3


def test_printed_settings_can_be_pasted(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    pasted = variables(invoke("keys", "vapid").stdout)
    for name, value in pasted.items():
        monkeypatch.setenv(name, value)

    result = invoke("config", "check")

    assert (result.exit_code, result.stderr) == (0, "")
    assert pasted.keys() == {"BRIDGE_VAPID_PRIVATE_KEY", "BRIDGE_VAPID_SUBJECT"}
    assert pasted["BRIDGE_VAPID_PRIVATE_KEY"] not in result.stdout
