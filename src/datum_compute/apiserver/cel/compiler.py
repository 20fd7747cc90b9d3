"""From a tree to closures: types are checked, functions chosen and steps estimated in one pass.

Each node becomes a :class:`CelNode`; calls are those of :mod:`.calls`, the loops of macros those of
:mod:`.macros`, and estimates those of :mod:`.costs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from datum_compute.apiserver.cel import functions, kubernetes
from datum_compute.apiserver.cel.calls import build_call
from datum_compute.apiserver.cel.costs import ROUND_STEPS, estimate_call
from datum_compute.apiserver.cel.functions import OVERLOADS
from datum_compute.apiserver.cel.macros import LOOPS, MACROS
from datum_compute.apiserver.cel.program import CelNode, CompiledProgram, Slots
from datum_compute.apiserver.cel.syntax import CompileError, Expr, Uint, parse
from datum_compute.apiserver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    NULL,
    OPAQUE_TYPES,
    SCALARS,
    STRING,
    UNBOUNDED,
    CelType,
    accepts,
    list_of,
    parse_type,
    substitute,
)
from datum_compute.apiserver.cel.values import (
    NO_OVERLOAD,
    CelError,
    Optional,
    TypeValue,
)

assert kubernetes, "its functions are defined when it is imported"

_CONSTANTS: dict[type, CelType] = {
    bool: BOOL,
    int: INT,
    Uint: parse_type("uint"),
    float: DOUBLE,
    type(None): NULL,
}
_TYPE_NAMES = frozenset(
    (*SCALARS, "list", "map", "type", "null_type", "optional_type", *OPAQUE_TYPES)
)


def compile_program(text: str, variables: Mapping[str, CelType]) -> CompiledProgram:
    compiler = _Compiler(text, variables)
    node = compiler.node(parse(text))
    return CompiledProgram(node, list(variables), compiler.used, compiler.slots)


class _Compiler:
    def __init__(self, source: str, variables: Mapping[str, CelType]) -> None:
        self.source = source
        self.scope = {name: (at + 1, kind) for at, (name, kind) in enumerate(variables.items())}
        self.declared = frozenset(variables)
        self.used: set[str] = set()
        self.slots = len(self.scope) + 1
        self._builders: dict[str, Callable[[Expr], CelNode]] = {
            "const": self._const,
            "ident": self._ident,
            "select": self._select,
            "optselect": self._optselect,
            "call": self._call,
            "member": self._member,
            "list": self._list,
            "map": self._map,
            "and": lambda expr: self._logic(expr, "_&&_", False),
            "or": lambda expr: self._logic(expr, "_||_", True),
        }
        self.is_mixed = False
        """Whether a list comes next whose entries may be of several types."""
        self.count = 0
        """Nodes so far: what one round of a macro takes is the number of those in its body."""

    def fail(self, at: int, why: str) -> NoReturn:
        raise CompileError(self.source, at, why)

    def node(self, expr: Expr) -> CelNode:
        self.count += 1
        return self._builders[expr.kind](expr)

    def _const(self, expr: Expr) -> CelNode:
        value = expr.value
        if isinstance(value, str | bytes):
            size = len(value.encode() if isinstance(value, str) else value)
            kind = STRING if isinstance(value, str) else BYTES
            return CelNode(kind, lambda _: value, 0, size, value)
        return CelNode(_CONSTANTS[type(value)], lambda _: value)

    def _ident(self, expr: Expr) -> CelNode:
        name = expr.value
        if name in self.scope:
            slot, kind = self.scope[name]
            if name in self.declared and slot <= len(self.declared):
                self.used.add(name)
            return CelNode(kind, lambda slots: slots[slot], 1, kind.max_size)
        if name not in _TYPE_NAMES:
            self.fail(expr.at, f"undeclared reference to '{name}' (in container '')")
        return self._type_value(name)

    def _type_value(self, name: str) -> CelNode:
        value = TypeValue(name)
        kind = parse_type({"list": "list(dyn)", "map": "map(dyn,dyn)"}.get(name, name))
        return CelNode(CelType("type", (kind,)), lambda _: value, 1)

    # Fields.

    def _select(self, expr: Expr) -> CelNode:
        path = _path(expr)
        if path in _TYPE_NAMES and path.partition(".")[0] not in self.scope:
            return self._type_value(path)
        operand = self.node(expr.args[0])
        if operand.type.name == "optional_type":
            return self._optional_select(expr, operand)
        key, kind = self._field(expr, operand.type)
        inner = operand.run

        def run(slots: Slots) -> Any:
            try:
                return inner(slots)[key]
            except KeyError:
                raise CelError(f"no such key: {key}") from None
            except (TypeError, IndexError):
                raise CelError(NO_OVERLOAD) from None

        return CelNode(kind, run, operand.cost + 1, kind.max_size)

    def _field(self, expr: Expr, kind: CelType) -> tuple[str, CelType]:
        """The key of a field in JSON, and its type."""
        name = expr.value
        if kind.fields is not None:
            if name not in kind.fields:
                self.fail(expr.at, f"undefined field '{name}'")
            return kind.fields[name]
        if kind.name != "map" and kind != DYN:
            self.fail(expr.at, f"type '{kind}' does not support field selection")
        return name, kind.item

    def _optselect(self, expr: Expr) -> CelNode:
        return self._optional_select(expr, self.node(expr.args[0]))

    def _optional_select(self, expr: Expr, operand: CelNode) -> CelNode:
        is_optional = operand.type.name == "optional_type"
        key, kind = self._field(expr, operand.type.item if is_optional else operand.type)
        inner = operand.run

        def run(slots: Slots) -> Optional:
            value = inner(slots)
            if isinstance(value, Optional):
                if not value.held:
                    return value
                value = value.held[0]
            if not isinstance(value, dict):
                raise CelError(NO_OVERLOAD)
            return Optional((value[key],)) if key in value else Optional()

        return CelNode(CelType("optional_type", (kind,)), run, operand.cost + 1)

    def _has(self, expr: Expr, args: tuple[Expr, ...]) -> CelNode:
        if len(args) != 1 or args[0].kind not in ("select", "optselect"):
            self.fail(expr.at, "invalid argument to has() macro")
        operand = self.node(args[0].args[0])
        kind = operand.type.item if operand.type.name == "optional_type" else operand.type
        key, _ = self._field(args[0], kind)
        inner = operand.run

        def run(slots: Slots) -> bool:
            value = inner(slots)
            if isinstance(value, Optional):
                value = value.held[0] if value.held else {}
            if not isinstance(value, dict):
                raise CelError(NO_OVERLOAD)
            return key in value

        return CelNode(BOOL, run, operand.cost)

    # Logic.

    def _logic(self, expr: Expr, name: str, decisive: bool) -> CelNode:
        """An operand that decides hides errors of others."""
        nodes = [self.node(one) for one in expr.args]
        for node in nodes:
            if node.type not in (BOOL, DYN):
                self._no_overload(expr, name, [nodes[0], node])
        runs = tuple(node.run for node in nodes)

        def run(slots: Slots) -> bool:
            failure: CelError | None = None
            for one in runs:
                try:
                    value = one(slots)
                except CelError as error:
                    failure = failure or error
                    continue
                if value is decisive:
                    return bool(decisive)
                if type(value) is not bool:
                    failure = failure or CelError(NO_OVERLOAD)
            if failure is not None:
                raise failure
            return not decisive

        return CelNode(BOOL, run, sum(node.cost for node in nodes))

    def _conditional(self, expr: Expr, nodes: list[CelNode]) -> CelNode:
        test, one, other = nodes
        bound: dict[str, CelType] = {}
        any_type = parse_type("A")
        is_typed = test.type in (BOOL, DYN) and accepts(any_type, one.type, bound)
        if not is_typed or not accepts(any_type, other.type, bound):
            self._no_overload(expr, "_?_:_", nodes)

        def run(slots: Slots) -> Any:
            value = test.run(slots)
            if value is True:
                return one.run(slots)
            if value is False:
                return other.run(slots)
            raise CelError(NO_OVERLOAD)

        kind = DYN if DYN in (one.type, other.type) else bound["A"]
        return CelNode(kind, run, test.cost + max(one.cost, other.cost), max(one.size, other.size))

    # Literals.

    def _list(self, expr: Expr) -> CelNode:
        is_mixed, self.is_mixed = self.is_mixed, False
        nodes = [self.node(one) for one in expr.args]
        kind = DYN if is_mixed else self._common(expr, nodes, expr.value)
        entries = [(node.run, optional) for node, optional in zip(nodes, expr.value, strict=True)]

        def run(slots: Slots) -> list[Any]:
            found: list[Any] = []
            for one, is_optional in entries:
                value = one(slots)
                if is_optional:
                    found += value.held
                else:
                    found.append(value)
            return found

        return CelNode(list_of(kind), run, 10 + sum(node.cost for node in nodes), len(nodes))

    def _map(self, expr: Expr) -> CelNode:
        keys = [self.node(one) for one in expr.args[::2]]
        items = [self.node(one) for one in expr.args[1::2]]
        kind = CelType(
            "map",
            (
                self._common(expr, keys, [False] * len(keys)),
                self._common(expr, items, expr.value),
            ),
            max_size=len(keys),
        )
        entries = list(zip(keys, items, expr.value, strict=True))

        def run(slots: Slots) -> dict[Any, Any]:
            found = {}
            for key, item, is_optional in entries:
                value = item.run(slots)
                if not is_optional:
                    found[key.run(slots)] = value
                elif value.held:
                    found[key.run(slots)] = value.held[0]
            return found

        return CelNode(kind, run, 30 + sum(n.cost for n in (*keys, *items)), len(keys))

    def _common(self, expr: Expr, nodes: list[CelNode], optional: list[bool]) -> CelType:
        """The one type of all entries."""
        bound: dict[str, CelType] = {}
        for node, is_optional in zip(nodes, optional, strict=True):
            kind = node.type
            if is_optional:
                if kind.name != "optional_type":
                    self.fail(expr.at, f"expected type 'optional_type' but found '{kind}'")
                kind = kind.item
            if not accepts(parse_type("A"), kind, bound):
                self.fail(expr.at, f"expected type '{bound['A']}' but found '{kind}'")
        return bound.get("A", DYN)

    # Calls.

    def _member(self, expr: Expr) -> CelNode:
        name, target, args = expr.value, expr.args[0], expr.args[1:]
        if name in MACROS and len(args) in MACROS[name]:
            return self._macro(expr, name, target, args)
        path = _path(target)
        if path and f"{path}.{name}" in OVERLOADS and path.partition(".")[0] not in self.scope:
            return self._choose(expr, f"{path}.{name}", [self.node(one) for one in args], False)
        nodes = [self.node(target)]
        self.is_mixed = name == "format"
        nodes += [self.node(one) for one in args]
        self.is_mixed = False
        return self._choose(expr, name, nodes, True)

    def _call(self, expr: Expr) -> CelNode:
        if expr.value == "has":
            return self._has(expr, expr.args)
        nodes = [self.node(one) for one in expr.args]
        if expr.value == "_?_:_":
            return self._conditional(expr, nodes)
        return self._choose(expr, expr.value, nodes, False)

    def _no_overload(self, expr: Expr, name: str, nodes: list[CelNode]) -> NoReturn:
        types = ", ".join(str(node.type) for node in nodes)
        self.fail(expr.at, f"found no matching overload for '{name}' applied to '({types})'")

    def _choose(self, expr: Expr, name: str, nodes: list[CelNode], is_member: bool) -> CelNode:
        if name not in OVERLOADS:
            self.fail(expr.at, f"undeclared reference to '{name}' (in container '')")
        chosen, result = [], None
        for overload in OVERLOADS[name]:
            if overload.is_member != is_member or len(overload.params) != len(nodes):
                continue
            bound: dict[str, CelType] = {}
            pairs = zip(overload.params, nodes, strict=True)
            if all(accepts(wanted, node.type, bound) for wanted, node in pairs):
                chosen.append(overload)
                given = substitute(overload.result, bound)
                result = given if result in (None, given) else DYN
        if not chosen or result is None:
            self._no_overload(expr, name, nodes)
        self._check_literals(expr, name, nodes)
        cost, size = estimate_call(name, nodes, result)
        run = build_call(name, chosen, nodes)
        return CelNode(result, run, cost + sum(node.cost for node in nodes), size)

    def _check_literals(self, expr: Expr, name: str, nodes: list[CelNode]) -> None:
        """Constants that never convert are errors of the rule."""
        at = {"matches": 1, "find": 1, "findAll": 1, "duration": 0, "timestamp": 0}.get(name)
        if at is None or at >= len(nodes) or not isinstance(nodes[at].constant, str):
            return
        text: str = nodes[at].constant
        try:
            if at:
                functions.pattern(text)
            else:
                OVERLOADS[name][0].run(text)
        except CelError as error:
            self.fail(expr.at, f"invalid {name} argument: {error}")

    # Macros.

    def _macro(self, expr: Expr, name: str, target: Expr, args: tuple[Expr, ...]) -> CelNode:
        if args[0].kind != "ident":
            self.fail(args[0].at, "argument must be a simple name")
        items = self.node(target)
        if name in ("optMap", "optFlatMap"):
            return self._optional_macro(expr, name, items, args)
        kind = items.type
        if kind.name not in ("list", "map") and kind != DYN:
            why = f"expression of type '{kind}' cannot be range of a comprehension"
            self.fail(target.at, f"{why} (must be list, map, or dynamic)")
        entry = kind.params[0] if kind.params else DYN
        before = self.count
        slot, bodies = self._bodies(args[0].value, entry, args[1:])
        steps = self.count - before + 1
        if name != "map" or len(args) == 3:
            self._check_test(args[1], bodies[0])
        each = sum(body.cost for body in bodies) + ROUND_STEPS[name]
        cost = items.cost + min(items.size, UNBOUNDED) * each + 1
        run = LOOPS[name](items.run, slot, [body.run for body in bodies], steps)
        if name in ("all", "exists", "exists_one", "existsOne"):
            return CelNode(BOOL, run, cost)
        result = list_of(entry if name == "filter" else bodies[-1].type, items.size)
        return CelNode(result, run, cost, items.size)

    def _bodies(
        self, name: str, kind: CelType, exprs: tuple[Expr, ...]
    ) -> tuple[int, list[CelNode]]:
        slot, held = self.slots, self.scope.get(name)
        self.slots += 1
        self.scope[name] = slot, kind
        nodes = [self.node(one) for one in exprs]
        if held is None:
            del self.scope[name]
        else:
            self.scope[name] = held
        return slot, nodes

    def _check_test(self, expr: Expr, node: CelNode) -> None:
        if node.type not in (BOOL, DYN):
            self.fail(expr.at, f"expected type 'bool' but found '{node.type}'")

    def _optional_macro(
        self, expr: Expr, name: str, items: CelNode, args: tuple[Expr, ...]
    ) -> CelNode:
        if items.type.name != "optional_type" and items.type != DYN:
            self._no_overload(expr, name, [items])
        slot, (body,) = self._bodies(args[0].value, items.type.item, args[1:])
        is_flat = name == "optFlatMap"
        if is_flat and body.type.name != "optional_type" and body.type != DYN:
            self.fail(args[1].at, f"expected type 'optional_type' but found '{body.type}'")

        def run(slots: Slots) -> Any:
            value = items.run(slots)
            if not isinstance(value, Optional):
                raise CelError(NO_OVERLOAD)
            if not value.held:
                return value
            slots[slot] = value.held[0]
            found = body.run(slots)
            return found if is_flat else Optional((found,))

        kind = body.type if is_flat else CelType("optional_type", (body.type,))
        return CelNode(kind, run, items.cost + body.cost + 3)


def _path(expr: Expr) -> str:
    """``a.b`` for such a selection; empty for anything else."""
    if expr.kind == "ident":
        return str(expr.value)
    if expr.kind == "select" and (before := _path(expr.args[0])):
        return f"{before}.{expr.value}"
    return ""
