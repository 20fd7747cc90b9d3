"""From a tree to closures: types are checked, functions chosen and steps estimated in one pass.

Each node becomes a :class:`CelNode`. Its ``run`` takes the slots of an evaluation: the budget
first, then the variables, then those of the macros. Estimates follow those of the real server
closely enough to refuse the same rules: what grows with data is multiplied by how large the
schema lets the data become.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from datum_compute.apiserver.cel import functions, kubernetes
from datum_compute.apiserver.cel.functions import OVERLOADS, Overload
from datum_compute.apiserver.cel.syntax import CompileError, Expr, Uint, parse
from datum_compute.apiserver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    NULL,
    OPAQUE_TYPES,
    STRING,
    TIME_TYPES,
    UNBOUNDED,
    CelType,
    accepts,
    list_of,
    parse_type,
    substitute,
)
from datum_compute.apiserver.cel.values import (
    Budget,
    CelError,
    Optional,
    OverBudget,
    TypeValue,
    equal,
    type_name,
)

assert kubernetes, "its functions are defined when it is imported"

Slots = list[Any]
Run = Callable[[Slots], Any]

DYNAMIC_PATTERN_STEPS = 200
"""For a regular expression that is not a constant: it is compiled at every evaluation."""
_CALL_STEPS = 25
"""For a call with a text, beyond the text: some 1 us, where a step takes 38 ns."""
_PARSE_STEPS = 150
"""For a text that is read as something else: some 6 us."""
_PARSING = frozenset(
    {
        *("ip", "isIP", "ip.isCanonical", "cidr", "isCIDR", "containsIP", "containsCIDR"),
        *("url", "isURL", "quantity", "isQuantity", "semver", "isSemver"),
        *("duration", "timestamp", "int", "uint", "double", "bool", "string", "format"),
    }
)

_CONSTANTS: dict[type, CelType] = {
    bool: BOOL,
    int: INT,
    Uint: parse_type("uint"),
    float: DOUBLE,
    type(None): NULL,
}
_SIMPLE = ("bool", "int", "uint", "double", "string", "bytes", *TIME_TYPES)
_TYPE_NAMES = frozenset(
    (*_SIMPLE, "list", "map", "type", "null_type", "optional_type", *OPAQUE_TYPES)
)
_NO_OVERLOAD = "no such overload"


class CelNode(NamedTuple):
    type: CelType
    run: Run
    cost: int = 0
    size: int = 1
    """The most items or characters that the value can have."""
    constant: Any = None
    """Of a text, which may be a regular expression."""


class CompiledProgram:
    """Implements :class:`~datum_compute.apiserver.cel.CelProgram`."""

    def __init__(self, node: CelNode, variables: Sequence[str], used: set[str], slots: int) -> None:
        self.type = node.type
        self.cost = min(node.cost, UNBOUNDED)
        self._run = node.run
        self._variables = tuple(variables)
        self._used = used
        self._empty = [None] * (slots - len(self._variables) - 1)

    def uses(self, variable: str) -> bool:
        return variable in self._used

    def evaluate(self, values: Mapping[str, Any], budget: Budget) -> Any:
        given = [values.get(name) for name in self._variables]
        budget.charge(1)
        return self._run([budget, *given, *self._empty])


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
                raise CelError(_NO_OVERLOAD) from None

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
                raise CelError(_NO_OVERLOAD)
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
                raise CelError(_NO_OVERLOAD)
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
                    failure = failure or CelError(_NO_OVERLOAD)
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
            raise CelError(_NO_OVERLOAD)

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
        if name in _MACROS and len(args) in _MACROS[name]:
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
        cost, size = _estimate(name, nodes)
        if size is None:
            size = 1 if result.name in _SCALARS - {"string", "bytes"} else UNBOUNDED
        run = self._call_of(name, chosen, nodes)
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

    def _call_of(self, name: str, chosen: list[Overload], nodes: list[CelNode]) -> Run:
        runs = tuple(node.run for node in nodes)
        types = [node.type for node in nodes]
        if len(chosen) == 1 and not any(_is_open(one) for one in types):
            overload = chosen[0]
            if name in ("_==_", "_!=_", "@in", "_+_"):
                if (special := _of_lists(name, types)) is not None:
                    return _with_budget(special, runs)
                if name in _DIRECT and all(map(_is_flat, types)):
                    scalar = types[0].name in _SCALARS
                    return (_plain if scalar else _charged)(_DIRECT[name], runs)
                if name == "_+_" and types[0].name in _SCALARS - {"string", "bytes"}:
                    return _plain(overload.run, runs)
            if overload.takes_budget:
                return _with_budget(overload.run, runs)
            if all(one.name in _SCALARS and one.name not in ("string", "bytes") for one in types):
                return _plain(overload.run, runs)
            constant = nodes[1].constant if len(nodes) == 2 else None
            if name == "matches" and isinstance(constant, str):
                search, text = functions.pattern(constant).matches, runs[0]
                factor = max(len(constant) // 4, 1)

                def match(slots: Slots) -> bool:
                    value = text(slots)
                    slots[0].charge(_CALL_STEPS + len(value) * factor // 10)
                    return search(value)

                return match
            extra = _PARSE_STEPS if name in _PARSING else _CALL_STEPS
            if name in ("matches", "find", "findAll"):
                extra = DYNAMIC_PATTERN_STEPS
            return _charged(overload.run, runs, extra)
        return _dispatched(tuple(chosen), runs)

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
        each = sum(body.cost for body in bodies) + _ROUND[name]
        cost = items.cost + min(items.size, UNBOUNDED) * each + 1
        run = _LOOPS[name](items.run, slot, [body.run for body in bodies], steps)
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
                raise CelError(_NO_OVERLOAD)
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


def _is_open(kind: CelType) -> bool:
    """Whether the values may be of other types than the one that was checked."""
    return kind in (DYN, NULL) or any(_is_open(one) for one in kind.params)


def _is_flat(kind: CelType) -> bool:
    """Whether Python compares the values as they are to be compared, truth and numbers apart."""
    return kind.name in _SCALARS or (
        kind.name in ("list", "map") and all(one.name in _SCALARS for one in kind.params)
    )


_SCALARS = frozenset(_SIMPLE)
_DIRECT: dict[str, Callable[[Any, Any], bool]] = {
    "_==_": lambda one, other: bool(one == other),
    "_!=_": lambda one, other: bool(one != other),
}


def _plain(call: Callable[..., Any], runs: tuple[Run, ...]) -> Run:
    if len(runs) == 1:
        only = runs[0]
        return lambda slots: call(only(slots))
    if len(runs) == 2:
        left, right = runs
        return lambda slots: call(left(slots), right(slots))
    return lambda slots: call(*[run(slots) for run in runs])


def _with_budget(call: Callable[..., Any], runs: tuple[Run, ...]) -> Run:
    return lambda slots: call(slots[0], *[run(slots) for run in runs])


def _charged(call: Callable[..., Any], runs: tuple[Run, ...], extra: int = 0) -> Run:
    def run(slots: Slots) -> Any:
        args = [one(slots) for one in runs]
        slots[0].charge(_steps(args) + extra)
        return call(*args)

    return run


def _steps(args: list[Any]) -> int:
    steps = 1
    for one in args:
        if isinstance(one, list | dict):
            steps += len(one)
        elif isinstance(one, str | bytes):
            steps += len(one) // 10
    return steps


def _dispatched(chosen: tuple[Overload, ...], runs: tuple[Run, ...]) -> Run:
    """Chooses by the values, where the types leave it open."""
    by_names: dict[tuple[str, ...], Overload | None] = {}

    def run(slots: Slots) -> Any:
        args = [one(slots) for one in runs]
        slots[0].charge(_steps(args) + _DISPATCH)
        names = tuple([type_name(one) for one in args])
        if names not in by_names:
            by_names[names] = next((one for one in chosen if _fits(one.params, names)), None)
        overload = by_names[names]
        if overload is None:
            raise CelError(_NO_OVERLOAD)
        try:
            return overload.run(*([slots[0], *args] if overload.takes_budget else args))
        except (TypeError, AttributeError):  # values inside of types that do not fit
            raise CelError(_NO_OVERLOAD) from None

    return run


_DISPATCH = 50
"""Steps that a choice by the values takes: some 2 us, where a step takes 38 ns."""


def _fits(params: tuple[CelType, ...], names: tuple[str, ...]) -> bool:
    return all(
        wanted.name in ("A", "K", "V", "dyn", name)
        for wanted, name in zip(params, names, strict=True)
    )


# Lists that a schema declares as sets or maps, whose order does not count.


def _of_lists(name: str, types: list[CelType]) -> Callable[..., Any] | None:
    left = types[0]
    if name == "@in" or not _has_order_free(left):
        return None
    if name == "_+_":
        return _merged(left) if left.list_type in ("set", "map") else None
    compare = _comparison(left)
    if name == "_!=_":
        return lambda budget, one, other: not compare(budget, one, other)
    return compare


def _has_order_free(kind: CelType) -> bool:
    if kind.list_type in ("set", "map") or any(map(_has_order_free, kind.params)):
        return True
    return any(_has_order_free(one) for _, one in (kind.fields or {}).values())


Compare = Callable[[Budget, Any, Any], bool]


def _comparison(kind: CelType) -> Compare:
    if not _has_order_free(kind):
        return lambda budget, one, other: equal(one, other, budget)
    if kind.fields is not None:
        inner = {name: _comparison(child) for name, child in kind.fields.values()}

        def same_fields(budget: Budget, one: Any, other: Any) -> bool:
            if not isinstance(one, dict) or not isinstance(other, dict):
                return equal(one, other, budget)
            budget.charge(len(one))
            return one.keys() == other.keys() and all(
                inner[key](budget, value, other[key])
                if key in inner
                else equal(value, other[key], budget)
                for key, value in one.items()
            )

        return same_fields
    item = _comparison(kind.item)

    def same_items(budget: Budget, one: Any, other: Any) -> bool:
        budget.charge(len(one))
        if len(one) != len(other):
            return False
        if isinstance(one, dict):
            return all(k in other and item(budget, v, other[k]) for k, v in one.items())
        if kind.list_type == "map":
            held = {_list_key(entry, kind.keys): entry for entry in other}
            keys = [_list_key(entry, kind.keys) for entry in one]
            return all(
                key in held and item(budget, entry, held[key])
                for key, entry in zip(keys, one, strict=True)
            )
        if kind.list_type == "set":
            budget.charge(len(one) * len(other) // 8)
            return all(any(item(budget, a, b) for b in other) for a in one)
        return all(item(budget, a, b) for a, b in zip(one, other, strict=True))

    return same_items


def _list_key(entry: Any, keys: tuple[str, ...]) -> Any:
    return tuple(repr(entry.get(key)) if isinstance(entry, dict) else None for key in keys)


def _merged(kind: CelType) -> Callable[..., Any]:
    """Of a set each value once; of a map the later entry, in the earlier's place."""

    def run(budget: Budget, one: list[Any], other: list[Any]) -> list[Any]:
        budget.charge(len(one) + len(other))
        if kind.list_type == "map":
            found = {_list_key(entry, kind.keys): entry for entry in one}
            found.update({_list_key(entry, kind.keys): entry for entry in other})
            return list(found.values())
        budget.charge(len(one) * len(other) // 8)
        return [*one, *(b for b in other if not any(equal(a, b, budget) for a in one))]

    return run


# Macros: each loop charges what its body takes, once a round.

Loop = Callable[[Run, int, list[Run], int], Run]


def _entries(value: Any) -> Any:
    if isinstance(value, list | dict):
        return value
    raise CelError(_NO_OVERLOAD)


def _quantifier(decisive: bool) -> Loop:
    def build(items: Run, slot: int, bodies: list[Run], steps: int) -> Run:
        (test,) = bodies

        def run(slots: Slots) -> bool:
            budget: Budget = slots[0]
            failure: CelError | None = None
            for entry in _entries(items(slots)):
                budget.left -= steps
                if budget.left < 0:
                    raise OverBudget
                slots[slot] = entry
                try:
                    if test(slots) is decisive:
                        return bool(decisive)
                except CelError as error:
                    failure = failure or error
            if failure is not None:
                raise failure
            return not decisive

        return run

    return build


def _exactly_one(items: Run, slot: int, bodies: list[Run], steps: int) -> Run:
    (test,) = bodies

    def run(slots: Slots) -> bool:
        found = 0
        for entry in _entries(items(slots)):
            slots[0].charge(steps)
            slots[slot] = entry
            found += test(slots) is True
        return found == 1

    return run


def _collected(items: Run, slot: int, bodies: list[Run], steps: int) -> Run:
    *tests, make = bodies

    def run(slots: Slots) -> list[Any]:
        found = []
        for entry in _entries(items(slots)):
            slots[0].charge(steps)
            slots[slot] = entry
            if not tests or tests[0](slots) is True:
                found.append(make(slots))
        return found

    return run


def _filtered(items: Run, slot: int, bodies: list[Run], steps: int) -> Run:
    return _collected(items, slot, [*bodies, lambda slots: slots[slot]], steps)


_MACROS = {
    "all": (2,),
    "exists": (2,),
    "exists_one": (2,),
    "existsOne": (2,),
    "map": (2, 3),
    "filter": (2,),
    "optMap": (2,),
    "optFlatMap": (2,),
}
_LOOPS: dict[str, Loop] = {
    "all": _quantifier(decisive=False),
    "exists": _quantifier(decisive=True),
    "exists_one": _exactly_one,
    "existsOne": _exactly_one,
    "map": _collected,
    "filter": _filtered,
}
_ROUND = {"all": 3, "exists": 4, "exists_one": 2, "existsOne": 2, "map": 12, "filter": 12}
"""What the real server counts for a round beside the body."""


def _estimate(name: str, nodes: list[CelNode]) -> tuple[int, int | None]:
    """Steps of a call, and the size of its result; None where only the type tells."""
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
    return 1, None
