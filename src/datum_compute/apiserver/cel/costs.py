"""Estimates of the steps that an evaluation takes.

They follow those of the real server closely enough to refuse the same rules: what grows with data
is multiplied by how large the schema lets the data become.
"""

from __future__ import annotations

from datum_compute.apiserver.cel.program import CelNode
from datum_compute.apiserver.cel.types import FIXED_SIZE, UNBOUNDED, CelType

ROUND_STEPS = {"all": 3, "exists": 4, "exists_one": 2, "existsOne": 2, "map": 12, "filter": 12}
"""What the real server counts for a round beside the body."""


def estimate_call(name: str, nodes: list[CelNode], result: CelType) -> tuple[int, int]:
    """Steps of a call beyond those of its arguments, and the size of its result."""
    sizes = [node.size for node in nodes]
    first = sizes[0] if sizes else 1
    text = -(-first // 10)
    match name:
        case "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_":
            return -(-min(sizes) // 10), 1
        case "@in":
            return (sizes[1] if nodes[1].type.name == "list" else 1), 1
        case "startsWith" | "endsWith":
            return -(-sizes[1] // 10), 1
        case "matches" | "find" | "findAll":
            return -(-(first + 1) // 10) * -(-sizes[1] // 4), first
        case "contains" if len(nodes) == 2:
            return text * -(-sizes[1] // 10), 1
        case "_+_":
            total = sum(sizes)
            return (1 if nodes[0].type.name == "list" else max(-(-total // 10), 1)), total
        case "lowerAscii" | "upperAscii" | "substring" | "trim" | "url":
            return max(text, 1), first
        case "replace":
            return 2 * text, first * max(sizes[2], 1)
        case "split":
            return 2 * text, first
        case "join":
            total = first * (nodes[0].type.item.max_size + (sizes[1] if len(sizes) > 1 else 0))
            return -(-total // 10), total
        case "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf":
            if nodes[0].type.name != "list":
                return text, 1
            item = nodes[0].type.item
            each = 1 + (-(-item.max_size // 10) if item.name in ("string", "bytes") else 0)
            return first * each, item.max_size
        case "sets.contains" | "sets.equivalent" | "sets.intersects":
            return first * sizes[1] * (2 if name == "sets.equivalent" else 1) + 1, 1
        case "_[_]":
            return 1, nodes[0].type.item.max_size
        case "orValue" | "value":
            return 1, max(nodes[0].type.item.max_size, sizes[-1])
        case "quantity" | "isQuantity" | "ip" | "isIP" | "cidr" | "isCIDR" | "ip.isCanonical":
            return max(text, 1), first
        case "validate":
            return -(-sizes[1] // 10) * 32, 1
    return 1, 1 if result.name in FIXED_SIZE else UNBOUNDED
