"""JSON that the inbox and the admin API share."""

from typing import Annotated, Any

from pydantic import Field

from bridge_server.projects.models import TypeId
from bridge_server.projects.projects import MOST_TYPES
from bridge_server.web.shapes import Shape, check


class SubscriptionShape(Shape):
    """The body of a PUT that subscribes an account to a project."""

    notification_types: Annotated[list[str], Field(max_length=MOST_TYPES)] | None = None


def read_wanted_types(values: dict[str, Any]) -> tuple[TypeId, ...] | None:
    """Read the types of a subscription; None if they are missing, which means all types and later ones."""
    types = check(SubscriptionShape, values).notification_types
    return None if types is None else tuple(map(TypeId, types))
