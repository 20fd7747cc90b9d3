"""Reads YAML that can be sent as JSON, and refuses the rest.

A few lines of YAML aliases can expand to more than fits into memory, so their expansion is counted,
not built.
"""

from __future__ import annotations

import json
import math
from typing import Any

from datum_compute.cli.errors import CommandError, usage

MAX_VALUES = 200_000
"""Values in one document with its aliases written out; a workload has some dozens."""
MAX_DEPTH = 64
MAX_SHOWN = 40
"""Characters of a value in a message."""

_TAGS = {
    "tag:yaml.org,2002:int": "a whole number",
    "tag:yaml.org,2002:float": "a number",
    "tag:yaml.org,2002:bool": "true or false",
    "tag:yaml.org,2002:timestamp": "a date",
}
"""What a value is by its look or its tag."""


def documents_of(text: str, where: str) -> list[Any]:
    """The documents of ``text`` that are not empty."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Leaves dates as strings: JSON has no dates. Refuses a key that is given twice, of which
        PyYAML would take the last."""

        def compose_mapping_node(self, anchor: dict[Any, Any]) -> yaml.MappingNode:
            # Here, since a mapping that was constructed has the keys of those merged into it.
            node = super().compose_mapping_node(anchor)
            seen = set()
            for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
                if (key.tag, key.value) in seen:
                    line = key.start_mark.line + 1
                    raise yaml.YAMLError(f'line {line}: key "{key.value}" already set in map')
                seen.add((key.tag, key.value))
            return node

        def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except (ValueError, LookupError, AttributeError, OverflowError):
                # PyYAML takes 0b for a number by its look, and raises what Python raises.
                line, kind = node.start_mark.line + 1, _TAGS.get(node.tag, "what its tag says")
                value = json.dumps(str(node.value)[:MAX_SHOWN], ensure_ascii=False)
                fault = f"line {line}: {value} cannot be read as {kind}; quote it"
                raise yaml.YAMLError(fault) from None

    Loader.yaml_implicit_resolvers = {
        first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        found = [d for d in yaml.load_all(text, Loader) if d is not None]
    except yaml.YAMLError as error:
        raise usage(f"{where}: not valid YAML or JSON: {error}") from error
    except RecursionError as error:
        raise _too_deep(where) from error
    except (ValueError, OverflowError) as error:  # of the scanner, which converts only these
        raise usage(f"{where}: not valid YAML or JSON: an escape is no character") from error
    for number, document in enumerate(found, 1):
        _check(document, f"{where}: document {number}")
    return found


def _check(document: Any, where: str) -> None:
    left = MAX_VALUES
    to_see: list[tuple[Any, int]] = [(document, 0)]
    while to_see:
        value, depth = to_see.pop()
        left -= 1
        if left < 0:
            raise usage(f"{where}: expands to more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise _too_deep(where)
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise usage(f"{where}: key {describe_value(key)} is not a string; quote it")
                _check_text(key, where)
            to_see += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, list):
            to_see += [(inner, depth + 1) for inner in value]
        elif isinstance(value, str):
            _check_text(value, where)
        elif not isinstance(value, int | float | None) or _is_no_number(value):
            raise usage(f"{where}: {describe_value(value)} is not valid in JSON; quote it")


def _check_text(value: str, where: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:  # half of a pair that JSON writes a character with
        half = f"\\u{ord(value[error.start]):04x}"
        raise usage(f"{where}: {half} alone is no character") from error


def describe_value(value: Any) -> str:
    """A number and the like as they are written, of others what they are."""
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value).lower()
    return _KINDS.get(type(value), "a date")


_KINDS: dict[type, str] = {
    str: "a string",
    list: "a list",
    dict: "an object",
    bytes: "binary data",
    set: "a set",
    tuple: "a pair",
}
"""What else YAML has; the rest are dates and times."""


def _is_no_number(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _too_deep(where: str) -> CommandError:
    return usage(f"{where}: nested more than {MAX_DEPTH} levels deep")
