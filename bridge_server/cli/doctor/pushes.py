"""The credentials of push services, tried with a push to a device that does not exist."""

from bridge_server.assembly.push_providers import push_providers
from bridge_server.cli.doctor.examination import Examination
from bridge_server.cli.doctor.findings import Finding, fail, ok, warn
from bridge_server.kernel.clock import SystemClock
from bridge_server.kernel.ids import IdMaker
from bridge_server.outgoing.outcome import Outcome, Verdict
from bridge_server.push.models import PushNotice
from bridge_server.push.providers.provider import Provider

_NO_DEVICE = {"fcm": "bridge-server-doctor", "apns": "0" * 64}
"""Tokens that belong to no device: the service answers that, once it has accepted the credentials."""


async def check_pushes(seen: Examination) -> list[Finding]:
    """One finding for each service that is configured."""
    try:
        providers = push_providers(seen.settings, SystemClock())
    except ValueError as error:
        return [fail("push", str(error), "correct the settings")]
    return [await _tried(name, provider) for name, provider in providers.items()]


async def _tried(name: str, provider: Provider) -> Finding:
    if name not in _NO_DEVICE:
        return ok(f"push {name}", "the key can be used; push services see it with the first message")
    notice = PushNotice(IdMaker().random_uuid(), "Bridge Server", "A test of the credentials.", ttl_seconds=0)
    async with provider:
        return _finding(f"push {name}", await provider.push(_NO_DEVICE[name], notice))


def _finding(subject: str, outcome: Outcome) -> Finding:
    if outcome.verdict is Verdict.BLOCKED:
        return fail(subject, f"the credentials are refused: {outcome.reason}")
    if outcome.verdict is Verdict.FAILED:
        return warn(subject, f"not tried to the end: {outcome.reason}")
    return ok(subject, "the credentials are accepted")
