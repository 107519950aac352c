"""No project id may stand in the way of the server's own paths."""

from pathlib import Path

import pytest

from bridge_server.assembly.application import build_app
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.projects.models import RESERVED_PROJECT_IDS, checked_project_id
from bridge_server.settings.settings import Settings
from tests.support.rows import each_row


def test_the_first_word_of_every_route_is_reserved(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, admin_token="operator", metrics_token="metrics")
    application = build_app(settings).application

    paths = {resource.canonical for resource in application.router.resources()}

    words = {path.split("/")[1] for path in paths}
    assert {word for word in words if "{" not in word} - {""} <= RESERVED_PROJECT_IDS


@each_row("project_id", ["docs", "console", "hello", "compat", "new", "push", "subscribe"])
def test_a_reserved_word_is_refused(project_id: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        checked_project_id(project_id)

    assert "reserved" in refusal.value.detail
