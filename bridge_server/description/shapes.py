"""JSON schemas of shapes, each under a name of its own."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter

_REFERENCE = "#/components/schemas/{model}"


class Schemas:
    """The schemas of these shapes, and of all that they are made of."""

    def __init__(self, shapes: Iterable[Any]) -> None:
        adapters = {repr(shape): (shape, TypeAdapter(shape)) for shape in shapes}
        inputs = [(name, "validation", adapter) for name, (_, adapter) in adapters.items()]
        found, rest = TypeAdapter.json_schemas(inputs, ref_template=_REFERENCE)  # type: ignore[arg-type]
        definitions = rest.get("$defs", {})
        self._found: dict[str, dict[str, Any]] = {name: _tidy(schema) for (name, _), schema in found.items()}
        self.components: dict[str, Any] = {
            shape_name(name): _tidy(schema) for name, schema in sorted(definitions.items())
        }

    def of(self, shape: Any) -> dict[str, Any]:
        """The schema of one of the shapes: a reference, if it has a name."""
        return self._found[repr(shape)]


def shape_name(name: str) -> str:
    """The name of a schema. Shapes of requests are classes that end in `Shape`, of answers in `Answer`."""
    return f"{name.removesuffix('Shape')}Input" if name.endswith("Shape") else name.removesuffix("Answer")


def example_of(schema: Mapping[str, Any], components: Mapping[str, Any]) -> Any:
    """A value of the schema, made of the examples in it."""
    if "$ref" in schema:
        return example_of(components[schema["$ref"].rpartition("/")[2]], components)
    for name in ("examples", "enum"):
        if schema.get(name):
            return schema[name][0]
    if "const" in schema:
        return schema["const"]
    for choices in (schema.get("anyOf"), schema.get("oneOf")):
        if choices:
            return example_of(choices[0], components)
    return _of_type(schema, components)


def _of_type(schema: Mapping[str, Any], components: Mapping[str, Any]) -> Any:
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {name: example_of(each, components) for name, each in properties.items()}
        case "array":
            items = schema.get("items")
            return [] if not items or schema.get("maxItems") == 0 else [example_of(items, components)]
        case "boolean":
            return True
        case "integer" | "number":
            return 0
        case "null":
            return None
    return "text"


def _tidy(schema: Any) -> Any:
    """The schema without titles made of names and without defaults of null, its references by their names."""
    if isinstance(schema, list):
        return [_tidy(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for name, value in schema.items():
        if (name == "title" and isinstance(value, str)) or (name == "default" and value is None):
            continue
        if name == "$ref":
            prefix, _, target = value.rpartition("/")
            kept[name] = f"{prefix}/{shape_name(target)}"
        elif name in ("properties", "$defs"):
            kept[name] = {key: _tidy(each) for key, each in value.items()}
        elif name in ("examples", "enum", "const", "default"):
            kept[name] = value
        else:
            kept[name] = _tidy(value)
    return kept
