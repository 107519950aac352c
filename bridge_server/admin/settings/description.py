"""The route of the settings described."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import WithJsonSchema

from bridge_server.web.description import AnswerShape, DescribedAnswer, Operation, text

SettingValue = Annotated[
    str | float | bool | None,
    WithJsonSchema({"type": ["string", "number", "boolean", "null"], "examples": [8080]}),
]


class ShownSettingAnswer(AnswerShape):
    """A setting: its value, its source, and whether the running server takes a new value on SIGHUP."""

    value: SettingValue
    origin: Annotated[str, text("default")]
    live: bool


class ReadinessAnswer(AnswerShape):
    """The parts of `/readyz`."""

    ready: bool
    failure: str | None
    troubles: list[str]


class SettingsReportAnswer(AnswerShape):
    """Every setting by name, and whether the server can do its work."""

    settings: dict[str, ShownSettingAnswer]
    ready: ReadinessAnswer


SETTINGS_OPERATIONS: Mapping[str, Operation] = {
    "settings": Operation(
        tag="Observation",
        summary="Show the settings",
        text="Every setting with its value and its source. A secret is `(set)` or null. Under `ready` are "
        "the "
        "parts of `/readyz`.",
        answers=(DescribedAnswer(200, "The settings.", SettingsReportAnswer),),
        needs_database=False,
    ),
}
