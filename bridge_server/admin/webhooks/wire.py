"""JSON of a webhook's test."""

from typing import Annotated, Any

from pydantic import AfterValidator

from bridge_server.admin.webhooks.service import TestedWebhook
from bridge_server.kernel.fields import http_url
from bridge_server.outgoing.outcome import Verdict
from bridge_server.web.json_body import JsonObject
from bridge_server.web.shapes import WEB_URL, Shape, check


class WebhookTestShape(Shape):
    """The body of POST /admin/webhooks/test."""

    url: Annotated[str, AfterValidator(http_url), WEB_URL]


def read_url(document: JsonObject) -> str:
    """Read the URL to test."""
    return check(WebhookTestShape, document.values).url


def tested_fields(tested: TestedWebhook) -> dict[str, Any]:
    """Whether the receiver took the message, its status, the time it took, and why it failed."""
    outcome = tested.outcome
    return {
        "delivered": outcome.verdict is Verdict.DELIVERED,
        "message_id": tested.message_id,
        "status": outcome.status,
        "milliseconds": round(tested.milliseconds, 1),
        "failure": outcome.reason or None,
    }
