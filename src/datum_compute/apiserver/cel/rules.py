"""Rules in CEL (``x-kubernetes-validations``): compiled with the definition, run at every write.

A schema with rules becomes a tree of :class:`_RuleNode`, which has the nodes with rules and what
leads to them. :func:`find_faults` judges the rules of a definition, :class:`RuleTree` runs them on
objects. Both follow the real server, in wording too: where an old value is comparable (lists by
their keys, never entries of other lists), what a rule that fails reports, and that a value which
is as it was may go on breaking a rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from datum_compute.api import fields
from datum_compute.api.fields import MAX_ERRORS, FieldError, FieldErrorType, FieldPath
from datum_compute.apiserver import cel
from datum_compute.apiserver.cel import Budget, CelError, CelProgram, CelType, OverBudget
from datum_compute.apiserver.cel.values import NO_OVERLOAD
from datum_compute.apiserver.schema import Schema

JsonSchema = Mapping[str, Any]

MAX_COST = 10_000_000
"""Estimated steps of one rule for one object, as in the real server: beyond, data must be bounded
by maxItems, maxProperties or maxLength."""
MAX_TOTAL_COST = 10 * MAX_COST
"""Of all rules of a schema."""
LOOP_STEPS = 250_000
"""Of all rules at one write on the event loop: 10 to 20 ms, at some 40 ns for a step."""
WORKER_STEPS = 10_000_000
"""Of all rules at one write, wherever it runs: some 400 ms in the worker process."""
MAX_MESSAGE = 5 * 1024
MAX_REQUEST = 3 * 1024 * 1024

_REASONS = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
_BLOCKING = frozenset(
    {
        FieldErrorType.NOT_SUPPORTED,
        FieldErrorType.REQUIRED,
        FieldErrorType.TOO_LONG,
        FieldErrorType.TOO_MANY,
        FieldErrorType.TYPE_INVALID,
    }
)
NOT_CHECKED = FieldError(
    "<nil>",
    FieldErrorType.INVALID,
    None,
    "some validation rules were not checked because the object was invalid; correct the existing"
    " errors to complete validation",
)


_OVER = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


def are_blocking(errors: list[FieldError]) -> bool:
    """Whether values may be of other types than the rules expect, so that they cannot be run."""
    return any(error.type in _BLOCKING for error in errors)


class _Rule(NamedTuple):
    """One compiled rule."""

    source: Mapping[str, Any]
    program: CelProgram | None
    """None if it does not compile: ``shown`` says why."""
    message: CelProgram | None
    uses_old: bool
    shown: str

    @property
    def is_optional(self) -> bool:
        return self.source.get("optionalOldSelf") is True


class _RuleNode:
    """The rules of one schema node, and the nodes below it that have any."""

    __slots__ = ("additional", "items", "keys", "properties", "rules", "type_name")

    def __init__(self, schema: JsonSchema, rules: list[_Rule]) -> None:
        self.type_name: str = schema.get("type", "")
        self.rules = rules
        self.properties: dict[str, _RuleNode] = {}
        self.additional: _RuleNode | None = None
        self.items: _RuleNode | None = None
        is_map = schema.get("x-kubernetes-list-type") == "map"
        self.keys: tuple[str, ...] | None = (
            tuple(schema.get("x-kubernetes-list-map-keys") or ()) if is_map else None
        )

    @property
    def is_used(self) -> bool:
        return bool(self.rules or self.properties or self.additional or self.items)


class RuleTree:
    """The rules of a whole schema."""

    def __init__(self, root: _RuleNode, self_type: CelType) -> None:
        self._root = root
        self._type = self_type

    def validate(
        self, new: Any, old: Any | None, *, steps: int, ratchets: bool = True
    ) -> list[FieldError]:
        """Where the object breaks a rule. ``ratchets``: not where a value is as it was. Raises
        OverBudget when ``steps`` are not enough, unless they are all that any object has."""
        run = _Run(Budget(steps), ratchets and old is not None)
        convert = self._type.convert
        if convert is not None:
            new, old = convert(new), convert(old)
        try:
            run.node(self._root, FieldPath(), new, old, is_same=False)
        except OverBudget:
            if steps < WORKER_STEPS:
                raise
            run.errors.append(fields.invalid("<nil>", "object", _OVER))
        return run.errors


class _Run:
    """One write."""

    def __init__(self, budget: Budget, ratchets: bool) -> None:
        self.budget = budget
        self.ratchets = ratchets
        self.errors: list[FieldError] = []

    def node(
        self, node: _RuleNode, path: FieldPath, value: Any, old: Any, *, is_same: bool
    ) -> None:
        """``is_same``: a value around this one is as it was."""
        if value is None or len(self.errors) > MAX_ERRORS:
            return
        if node.rules:
            self.rules(node, path, value, old, is_same=is_same)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            self.object(node, path, value, before, is_same=is_same)
        elif isinstance(value, list) and node.items is not None:
            self.list(node, path, value, old if isinstance(old, list) else [], is_same=is_same)

    def object(
        self,
        node: _RuleNode,
        path: FieldPath,
        value: dict[str, Any],
        old: dict[str, Any],
        *,
        is_same: bool,
    ) -> None:
        if node.additional is not None:
            for key, entry in value.items():
                self.node(node.additional, path.key(key), entry, old.get(key), is_same=is_same)
        for name, child in node.properties.items():
            if name in value:
                self.node(child, path.child(name), value[name], old.get(name), is_same=is_same)

    def list(
        self, node: _RuleNode, path: FieldPath, value: list[Any], old: list[Any], *, is_same: bool
    ) -> None:
        assert node.items is not None
        held: dict[Any, Any] = {}
        if node.keys is not None:
            held = {_key(entry, node.keys): entry for entry in old}
        elif self.ratchets and not is_same:
            is_same = value == old
        for index, entry in enumerate(value):
            before = held.get(_key(entry, node.keys)) if node.keys is not None else None
            self.node(node.items, path.index(index), entry, before, is_same=is_same)

    def rules(
        self, node: _RuleNode, path: FieldPath, value: Any, old: Any, *, is_same: bool
    ) -> None:
        for rule in node.rules:
            if rule.program is None:
                detail = f"rule compile error: {rule.shown}"
                self.errors.append(fields.invalid(path, node.type_name, detail))
                continue
            if rule.uses_old and old is None and not rule.is_optional:
                continue
            before = old
            if rule.is_optional:
                before = cel.Optional() if old is None else cel.Optional((old,))
            values = {"self": value, "oldSelf": before}
            try:
                passes = rule.program.evaluate(values, self.budget)
            except CelError as error:
                self.errors.append(fields.invalid(path, node.type_name, _unevaluated(rule, error)))
                continue
            if passes is True:
                continue
            # Only what fails is compared: that is rare.
            if self.ratchets and not rule.uses_old and (is_same or (value == old)):
                continue
            self.errors.append(self._failure(rule, node, path, values))

    def _failure(
        self, rule: _Rule, node: _RuleNode, path: FieldPath, values: Mapping[str, Any]
    ) -> FieldError:
        below = rule.source.get("fieldPath") or ""
        where = FieldPath(f"{path.text}{below}".removeprefix("."))
        message = self._message(rule, values)
        match rule.source.get("reason"):
            case "FieldValueForbidden":
                return fields.forbidden(where, message)
            case "FieldValueRequired":
                return fields.required(where, message)
            case "FieldValueDuplicate":
                return fields.duplicate(where, node.type_name)
        return fields.invalid(where, node.type_name, message)

    def _message(self, rule: _Rule, values: Mapping[str, Any]) -> str:
        if rule.message is not None:
            try:
                text = str(rule.message.evaluate(values, self.budget)).strip()
            except CelError:
                text = ""
            if text and "\n" not in text and len(text.encode()) <= MAX_MESSAGE:
                return text
        return rule.shown if rule.source.get("message") else f"failed rule: {rule.shown}"


def _unevaluated(rule: _Rule, error: CelError) -> str:
    if str(error).startswith(NO_OVERLOAD):
        return (
            f"'{error}': call arguments did not match a supported operator, function or macro"
            f" signature for rule: {rule.shown}"
        )
    return f"{error} evaluating rule: {rule.shown}"


def _key(entry: Any, keys: tuple[str, ...]) -> Any:
    return tuple(repr(entry.get(key)) if isinstance(entry, dict) else None for key in keys)


# Of a definition.


_trees: WeakKeyDictionary[Schema, RuleTree | None] = WeakKeyDictionary()


def rules_of(schema: Schema) -> RuleTree | None:
    """The rules of a compiled schema, from its first use on; None if it has none."""
    if schema not in _trees:
        _trees[schema] = _compile(schema.source)
    return _trees[schema]


def _compile(schema: JsonSchema) -> RuleTree | None:
    kind = cel.declare(schema, is_resource=True) if _mentions_rules(schema) else None
    if kind is None:
        return None
    root = _SchemaCompiler().node(schema, FieldPath(), kind, 1, "")
    return RuleTree(root, kind) if root.is_used else None


def find_faults(schema: JsonSchema, path: FieldPath) -> list[FieldError]:
    """What keeps the rules of a sound schema from being run."""
    if not _mentions_rules(schema):
        return []
    kind = cel.declare(schema, is_resource=True)
    compiler = _SchemaCompiler()
    compiler.node(schema, path, kind, 1, "")
    return [*compiler.faults, *_total_faults(compiler.costs, path)][: MAX_ERRORS + 1]


def _total_faults(costs: dict[str, int], path: FieldPath) -> Iterator[FieldError]:
    total = sum(costs.values())
    if total <= MAX_TOTAL_COST:
        return
    most = sorted(costs, key=lambda where: -costs[where])[:4]
    for where in most:
        if costs[where] >= MAX_TOTAL_COST // 100:
            detail = (
                "contributed to estimated rule cost total exceeding cost limit for entire"
                " OpenAPIv3 schema"
            )
            yield fields.forbidden(where, detail)
    what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    yield fields.forbidden(path, _over_cost(what, total, MAX_TOTAL_COST))


def _mentions_rules(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_mentions_rules, schema))
    if not isinstance(schema, dict):
        return False
    return bool(schema.get("x-kubernetes-validations")) or any(
        map(_mentions_rules, schema.values())
    )


class _SchemaCompiler:
    """One pass over a schema."""

    def __init__(self) -> None:
        self.faults: list[FieldError] = []
        self.costs: dict[str, int] = {}
        """Of each expression, by its path."""

    def node(
        self,
        schema: JsonSchema,
        path: FieldPath,
        kind: CelType | None,
        times: int | None,
        uncorrelatable: str,
    ) -> _RuleNode:
        """``times``: how often the node can be in an object; None if nothing bounds it.
        ``uncorrelatable``: the list around it whose entries have no old value."""
        rules = self._rules(schema, path, kind, times, uncorrelatable)
        node = _RuleNode(schema, rules)
        for index, part in enumerate(schema.get("allOf") or ()):
            where = path.child("allOf").index(index)
            node.rules += self._rules(part, where, kind, times, uncorrelatable)
        for name, child in (schema.get("properties") or {}).items():
            inner = self._field_type(kind, name, child)
            where = path.child("properties").key(name)
            found = self.node(child, where, inner, times, uncorrelatable)
            if found.is_used:
                node.properties[name] = found
        below = self._entries(schema, path, kind)
        if below is not None:
            entry, where, inner, most = below
            if schema.get("type") == "array" and node.keys is None and not uncorrelatable:
                uncorrelatable = str(path)
            many = times * most if times is not None and most is not None else None
            found = self.node(entry, where, inner, many, uncorrelatable)
            if found.is_used:
                if schema.get("type") == "array":
                    node.items = found
                else:
                    node.additional = found
        return node

    def _field_type(self, kind: CelType | None, name: str, child: JsonSchema) -> CelType | None:
        for json_name, found in (kind.fields or {}).values() if kind else ():
            if json_name == name:
                return found
        return cel.declare(child)

    def _entries(
        self, schema: JsonSchema, path: FieldPath, kind: CelType | None
    ) -> tuple[JsonSchema, FieldPath, CelType | None, int | None] | None:
        name, limit = "items", "maxItems"
        if schema.get("type") == "object":
            name, limit = "additionalProperties", "maxProperties"
        entry = schema.get(name)
        if not isinstance(entry, dict):
            return None
        inner = kind.item if kind is not None and kind.params else cel.declare(entry)
        return entry, path.child(name), inner, schema.get(limit)

    def _rules(
        self,
        schema: JsonSchema,
        path: FieldPath,
        kind: CelType | None,
        times: int | None,
        uncorrelatable: str,
    ) -> list[_Rule]:
        found = []
        for index, source in enumerate(schema.get("x-kubernetes-validations") or ()):
            where = path.child("x-kubernetes-validations").index(index)
            faults = list(_form_faults(source, where, schema))
            if not faults and kind is None:
                why = "failed to convert to declType for CEL validation rules"
                whole = path.child("x-kubernetes-validations")
                faults.append(FieldError(str(whole), FieldErrorType.INTERNAL, None, why))
            if not faults and kind is not None:
                found.append(self._rule(source, where, kind, times, uncorrelatable))
            self.faults += faults
        return found

    def _rule(
        self,
        source: Mapping[str, Any],
        path: FieldPath,
        kind: CelType,
        times: int | None,
        uncorrelatable: str,
    ) -> _Rule:
        is_optional = source.get("optionalOldSelf") is True
        old = CelType("optional_type", (kind,)) if is_optional else kind
        variables = {"self": kind, "oldSelf": old}
        program = self._program(source, "rule", "bool", path, variables)
        if isinstance(program, str):
            return _Rule(source, None, None, False, program)
        message = None
        if source.get("messageExpression"):
            found = self._program(source, "messageExpression", "string", path, variables)
            message = None if isinstance(found, str) else found
        most = times if times is not None else MAX_REQUEST // (kind.min_json + 1)
        self._add_cost(path, "rule", program.cost * most)
        if message is not None:
            self._add_cost(path, "messageExpression", message.cost)
        uses_old, given = program.uses("oldSelf"), source.get("optionalOldSelf")
        if uses_old and uncorrelatable:
            detail = (
                "oldSelf cannot be used on the uncorrelatable portion of the schema within"
                f" {uncorrelatable}"
            )
            self.faults.append(fields.invalid(path.child("rule"), source["rule"], detail))
        elif not uses_old and given is not None:
            detail = "may not be set if oldSelf is not used in rule"
            self.faults.append(fields.invalid(path.child("optionalOldSelf"), given, detail))
        shown = (source.get("message") or source["rule"]).strip()
        return _Rule(source, program, message, uses_old, shown)

    def _program(
        self,
        source: Mapping[str, Any],
        name: str,
        wanted: str,
        path: FieldPath,
        variables: Mapping[str, CelType],
    ) -> CelProgram | str:
        """The program, or why there is none."""
        is_rule = name == "rule"
        try:
            program = cel.compile_expression(source[name], variables)
        except cel.CompileError as error:
            why = f"{'' if is_rule else f'{name} '}compilation failed: {error}"
        else:
            if program.type.name == wanted:
                return program
            why = f"{'cel expression' if is_rule else name} must evaluate to a {wanted}"
        self.faults.append(fields.invalid(path.child(name), dict(source), why))
        return why

    def _add_cost(self, path: FieldPath, name: str, cost: int) -> None:
        self.costs[str(path.child(name))] = cost
        if cost > MAX_COST:
            detail = _over_cost(f"estimated {name} cost", cost, MAX_COST)
            self.faults.append(fields.forbidden(path.child(name), detail))


def _over_cost(what: str, cost: int, limit: int) -> str:
    ratio = cost / limit
    factor = "more than 100x" if ratio > 100 else f"{ratio:f}x" if ratio < 1.5 else f"{ratio:.1f}x"
    return (
        f"{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding"
        " maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


def _form_faults(source: Any, path: FieldPath, schema: JsonSchema) -> Iterator[FieldError]:
    if not isinstance(source, dict):
        yield fields.type_invalid(path, source, "must be an object")
        return
    for name in ("rule", "message", "messageExpression", "fieldPath", "reason"):
        if source.get(name) is not None and not isinstance(source[name], str):
            yield fields.type_invalid(path.child(name), source[name], "must be a string")
            return
    rule, message = (source.get("rule") or "").strip(), (source.get("message") or "").strip()
    if not rule:
        yield fields.required(path.child("rule"), "rule is not specified")
    elif source.get("message") and not message:
        detail = "message must be non-empty if specified"
        yield fields.invalid(path.child("message"), source["message"], detail)
    elif "\n" in message or "\r" in message:
        detail = "message must not contain line breaks"
        yield fields.invalid(path.child("message"), source["message"], detail)
    elif ("\n" in rule or "\r" in rule) and not message:
        detail = "message must be specified if rule contains line breaks"
        yield fields.required(path.child("message"), detail)
    if source.get("messageExpression") and not source["messageExpression"].strip():
        detail = "messageExpression must be non-empty if specified"
        yield fields.required(path.child("messageExpression"), detail)
    if source.get("reason") is not None and source["reason"] not in _REASONS:
        yield fields.not_supported(path.child("reason"), source["reason"], _REASONS)
    where = source.get("fieldPath")
    if where and ("\n" in where or not _is_field_path(where, schema)):
        detail = "fieldPath must be a valid path"
        yield fields.invalid(path.child("fieldPath"), where, detail)


def _is_field_path(text: str, schema: JsonSchema) -> bool:
    """``.a.b``: fields by name, and entries of maps; no lists."""
    if not text.startswith("."):
        return False
    node: Any = schema
    for name in text[1:].split("."):
        if node.get("properties"):
            node = node["properties"].get(name)
        else:
            node = node.get("additionalProperties")
        if not name or not isinstance(node, dict):
            return False
    return True
