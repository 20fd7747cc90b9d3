"""The keywords of schemas in definitions: their types, and which of them are kept.

The real server decodes a schema into a type of its own. So it refuses a value of another type,
drops keywords that it does not know, and stores nothing that is empty.
"""

from __future__ import annotations

from typing import Any

from datum_compute.api import fields
from datum_compute.apiserver.schema.outcome import MAX_UNKNOWN, SchemaOutcome

_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("$ref", "$schema", "description", "format", "id", "pattern"), (str,)),
    **dict.fromkeys(("title", "type"), (str,)),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), (str,)),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "nullable", "uniqueItems"), (bool,)),
    "x-kubernetes-embedded-resource": (bool,),
    "x-kubernetes-int-or-string": (bool,),
    "x-kubernetes-preserve-unknown-fields": (bool,),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), (int, float)),
    **dict.fromkeys(("maxItems", "maxLength", "maxProperties"), (int,)),
    **dict.fromkeys(("minItems", "minLength", "minProperties"), (int,)),
    **dict.fromkeys(("allOf", "anyOf", "enum", "oneOf", "required"), (list,)),
    **dict.fromkeys(("x-kubernetes-list-map-keys", "x-kubernetes-validations"), (list,)),
    **dict.fromkeys(("definitions", "dependencies", "patternProperties", "properties"), (dict,)),
    **dict.fromkeys(("externalDocs", "not"), (dict,)),
    **dict.fromkeys(("additionalItems", "additionalProperties"), (bool, dict)),
    "items": (dict, list),
}
_ANY = ("default", "example")
_KEPT_EMPTY = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "default",
        "example",
        "items",
        "not",
        "x-kubernetes-preserve-unknown-fields",
    }
)
_OF_SCHEMAS = ("definitions", "patternProperties", "properties")
_LISTS_OF_SCHEMAS = ("allOf", "anyOf", "oneOf")
_SCHEMAS = ("additionalItems", "additionalProperties", "items", "not")
_RULE = ("fieldPath", "message", "messageExpression", "optionalOldSelf", "reason", "rule")


def pruned(schema: Any, path: str, out: SchemaOutcome) -> Any:
    """The schema as it is stored. A value of another type is an error in ``out``."""
    if not isinstance(schema, dict):
        if schema is not None:
            out.add(fields.type_invalid(path, schema, "must be a schema"))
        return schema
    kept: dict[str, Any] = {}
    for name, value in schema.items():
        here = f"{path}.{name}"
        types = _TYPES.get(name)
        if types is None and name not in _ANY:
            if len(out.unknown) < MAX_UNKNOWN:
                out.unknown.append(here)
        elif value is None or (value in ("", False, [], {}) and _is_left_out(name, value)):
            continue
        elif types is not None and type(value) not in types:
            out.add(fields.type_invalid(here, value, f"must be of type {types[0].__name__}"))
        else:
            kept[name] = _pruned_value(name, value, here, out)
    return kept


def _is_left_out(name: str, value: Any) -> bool:
    # Numbers are not empty, and in Python 0 equals False.
    return name not in _KEPT_EMPTY and (value is False or not isinstance(value, int | float))


def _pruned_value(name: str, value: Any, path: str, out: SchemaOutcome) -> Any:
    if name in _OF_SCHEMAS:
        return {key: pruned(each, f"{path}.{key}", out) for key, each in value.items()}
    if name in _LISTS_OF_SCHEMAS or (name == "items" and isinstance(value, list)):
        return [pruned(each, f"{path}[{index}]", out) for index, each in enumerate(value)]
    if name in _SCHEMAS and isinstance(value, dict):
        return pruned(value, path, out)
    if name == "x-kubernetes-validations":
        return [_pruned_rule(each, f"{path}[{index}]", out) for index, each in enumerate(value)]
    return value


def _pruned_rule(rule: Any, path: str, out: SchemaOutcome) -> Any:
    if not isinstance(rule, dict):
        out.add(fields.type_invalid(path, rule, "must be a rule"))
        return rule
    unknown = [f"{path}.{name}" for name in rule if name not in _RULE]
    out.unknown.extend(unknown[: MAX_UNKNOWN - len(out.unknown)])
    return {name: rule[name] for name in rule if name in _RULE and (rule[name] or name == "rule")}
