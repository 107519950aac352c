"""Fields of forms as the values that the admin API's shapes check."""

from collections.abc import Mapping
from typing import Any

from bridge_server.web.json_body import JsonObject


def text_fields(form: Mapping[str, str], *names: str, optional: tuple[str, ...] = ()) -> JsonObject:
    """The fields as texts. An optional field that is empty is left out."""
    values: dict[str, Any] = {name: form.get(name, "").strip() for name in names}
    values |= {name: form[name].strip() for name in optional if form.get(name, "").strip()}
    return JsonObject(values, None)


def number_of(text: str) -> Any:
    """The number that the text spells, or the text itself: no shape takes it for a number."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
