"""Reads YAML that can be sent as JSON, and refuses the rest.

A few lines of YAML aliases can expand to more than fits into memory, so their expansion is counted,
not built.
"""

from __future__ import annotations

import math
from typing import Any

from datum_compute.cli.errors import CommandError, usage

MAX_VALUES = 200_000
"""Values in one document with its aliases written out; a workload has some dozens."""
MAX_DEPTH = 64


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
    except (ValueError, TypeError) as error:  # a key that is a list, a number out of range
        raise usage(f"{where}: not valid YAML or JSON: {error}") from error
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
                    raise usage(f"{where}: key {key!r} is not a string; quote it")
            to_see += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, list):
            to_see += [(inner, depth + 1) for inner in value]
        elif not isinstance(value, str | int | float | None) or _is_no_number(value):
            raise usage(f"{where}: {value!r} is not valid in JSON; quote it")


def _is_no_number(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _too_deep(where: str) -> CommandError:
    return usage(f"{where}: nested more than {MAX_DEPTH} levels deep")
