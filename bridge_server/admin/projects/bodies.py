"""The bodies of requests about projects, which forms of the console have too."""

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, Field

from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.fields import http_url
from bridge_server.projects.names import checked_name, checked_project_id, checked_type_id
from bridge_server.projects.projects import LEAST_PER_HOUR, MOST_AT_ONCE, MOST_PER_HOUR
from bridge_server.web.json_body import JsonObject
from bridge_server.web.shapes import WEB_URL, Shape, check


def _valid(rule: Callable[[str], str]) -> AfterValidator:
    def apply(text: str) -> str:
        try:
            return rule(text)
        except InvalidInputError as error:
            raise ValueError(error.faults[0].detail) from error

    return AfterValidator(apply)


Name = Annotated[str, _valid(checked_name)]


class ProjectShape(Shape):
    """The body of POST /admin/projects."""

    name: Name
    project_id: Annotated[str, _valid(checked_project_id)] | None = None


class AccountLimitShape(Shape):
    """The body of PUT /admin/projects/{project_id}/account-limit."""

    per_hour: Annotated[float, Field(ge=LEAST_PER_HOUR, le=MOST_PER_HOUR)]
    burst: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)]


class WebhookShape(Shape):
    """The body of PUT /admin/projects/{project_id}/webhook."""

    url: Annotated[str, AfterValidator(http_url), WEB_URL]


class TypeShape(Shape):
    """The body of POST /admin/projects/{project_id}/types."""

    name: Name
    type_id: Annotated[str, _valid(checked_type_id)] | None = None


class TypeNameShape(Shape):
    """The body of PUT /admin/projects/{project_id}/types/{type_id}."""

    name: Name


def read_project(document: JsonObject) -> ProjectShape:
    """Read a name and an optional id."""
    return check(ProjectShape, document.values)


def read_account_limit(document: JsonObject) -> AccountLimitShape:
    """Read a rate per hour and a burst."""
    return check(AccountLimitShape, document.values)


def read_webhook(document: JsonObject) -> str:
    """Read the URL of a webhook for subscriptions."""
    return check(WebhookShape, document.values).url


def read_type(document: JsonObject) -> TypeShape:
    """Read a name and an optional id."""
    return check(TypeShape, document.values)


def read_type_name(document: JsonObject) -> str:
    """Read the new name of a type."""
    return check(TypeNameShape, document.values).name
