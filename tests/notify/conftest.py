"""Fixtures of the notification service's tests."""

from typing import Any

import pytest

from tests.support.asking import METRICS_TOKEN
from tests.support.project import App, create_app


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """The server tells its figures and calls webhooks on this machine."""
    return {"metrics_token": METRICS_TOKEN, "allow_private_webhooks": True}


@pytest.fixture
async def other_app(app: App) -> App:
    """Another project on the server."""
    return await create_app(app.server, app.operator, "Other")
