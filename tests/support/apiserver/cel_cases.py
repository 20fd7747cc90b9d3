"""Rules in CEL with objects that keep and break them, for our server and for the real one.

All rules are about one schema, which has a field of every type that rules see. A definition has
it twice: v1 without rules, to store what breaks them, and v2 with them. The verdicts of a real
server are in ``cel_verdicts.json`` next to this file.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

VERDICTS = Path(__file__).with_name("cel_verdicts.json")

Spec = dict[str, Any]
Causes = list[list[str]]
"""Of each error its field, reason and message."""

_TEXT = {"type": "string", "maxLength": 64}
_PORT = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": _TEXT, "port": {"type": "integer"}, "protocol": _TEXT},
}
FIELDS: dict[str, Any] = {
    "min": {"type": "integer"},
    "max": {"type": "integer"},
    "name": _TEXT,
    "host": _TEXT,
    "mode": {"type": "string", "enum": ["Fast", "Slow"]},
    "ratio": {"type": "number"},
    "on": {"type": "boolean"},
    "at": {"type": "string", "format": "date-time"},
    "until": {"type": "string", "format": "date-time"},
    "day": {"type": "string", "format": "date"},
    "wait": {"type": "string", "format": "duration"},
    "raw": {"type": "string", "format": "byte", "maxLength": 64},
    "port": {"x-kubernetes-int-or-string": True},
    "size": _TEXT,
    "labels": {"type": "object", "maxProperties": 16, "additionalProperties": _TEXT},
    "ports": {
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": _PORT,
    },
    "tags": {"type": "array", "maxItems": 16, "x-kubernetes-list-type": "set", "items": _TEXT},
    "numbers": {"type": "array", "maxItems": 16, "items": {"type": "integer"}},
    "words": {"type": "array", "maxItems": 16, "items": _TEXT},
    "steps": {"type": "array", "maxItems": 16, "items": _PORT},
    "inner": {"type": "object", "properties": {"a": _TEXT, "b": _TEXT}},
    "fixed": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": _TEXT}},
    "open": {
        "type": "array",
        "items": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
    "loose": {"type": "string"},
    "maybe": {"type": "string", "nullable": True, "maxLength": 8},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "part": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "my-field": _TEXT,
    "a.b": _TEXT,
    "c/d": _TEXT,
    "x__y": _TEXT,
    "namespace": _TEXT,
}


class RuleCase(NamedTuple):
    """Rules at one place, and objects before and after a write; a create has none before."""

    title: str
    place: tuple[str, ...]
    """Property names below ``spec``, or ``items`` and ``additionalProperties``."""
    rules: tuple[dict[str, Any], ...]
    writes: tuple[tuple[Spec, Spec | None], ...] = ()

    def schema(self) -> dict[str, Any]:
        root = {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": copy.deepcopy(FIELDS)}},
        }
        node: dict[str, Any] = root["properties"]["spec"]  # type: ignore[index]
        for step in self.place:
            if step == "<root>":
                node = root
            elif step in ("items", "additionalProperties"):
                node = node[step]
            else:
                node = node["properties"][step]
        node["x-kubernetes-validations"] = list(self.rules)
        return root


def case(rule: str | dict[str, Any], *writes: Any, at: str = "") -> RuleCase:
    """A write is a spec, or a pair of the new and the old one."""
    made = {"rule": rule} if isinstance(rule, str) else rule
    pairs = tuple(one if isinstance(one, tuple) else (one, None) for one in writes)
    title = f"{made.get('rule', '')} {json.dumps(made, sort_keys=True) if len(made) > 1 else ''}"
    return RuleCase(f"{at}: {title.strip()}", tuple(filter(None, at.split(","))), (made,), pairs)


def _cases() -> Iterator[RuleCase]:
    # Numbers, texts, logic.
    yield case("self.min <= self.max", {"min": 1, "max": 2}, {"min": 3, "max": 2}, {"min": 1})
    yield case(
        "has(self.min) && has(self.max) ? self.max - self.min < 5 : true",
        {"min": 1, "max": 9},
        {"min": 1},
    )
    yield case("!has(self.min) || self.min % 2 == 0", {"min": 4}, {"min": 3}, {})
    yield case("self.min / self.max == 2", {"min": 5, "max": 2}, {"min": 5, "max": 0})
    yield case(
        "self.min * self.max > 0", {"min": 9223372036854775807, "max": 2}, {"min": -1, "max": -1}
    )
    yield case(
        "-self.min < 0 && !(self.max in [1, 2, 3])", {"min": 1, "max": 4}, {"min": 1, "max": 2}
    )
    yield case("self.ratio > 0.5", {"ratio": 1}, {"ratio": 0.25})
    yield case(
        "double(self.min) / 2.0 >= self.ratio", {"min": 3, "ratio": 1.5}, {"min": 3, "ratio": 1.75}
    )
    yield case("self.min > self.ratio", {"min": 2, "ratio": 1.5}, {"min": 1, "ratio": 1.5})
    yield case(
        "self.name.startsWith('a') && self.name.endsWith('z')",
        {"name": "abz"},
        {"name": "abc"},
        {"name": ""},
    )
    yield case("self.name.contains('-') == false", {"name": "ab"}, {"name": "a-b"})
    yield case("size(self.name) > 2", {"name": "äöü"}, {"name": "äö"})
    yield case("self.name.matches('^[a-z]+$')", {"name": "abc"}, {"name": "abC"})
    yield case(r"self.name.matches(r'^\d{2}(-\d)?$')", {"name": "12-3"}, {"name": "1"})
    yield case(
        "self.mode == 'Fast' ? has(self.min) : !has(self.min)",
        {"mode": "Fast", "min": 1},
        {"mode": "Fast"},
        {"mode": "Slow", "min": 1},
    )
    yield case("self.on || self.min == 1", {"on": True}, {"on": False, "min": 2}, {"on": False})
    yield case("self.on && self.min == 1", {"on": False}, {"on": True})
    yield case(
        "[has(self.min), has(self.max), has(self.name)].filter(x, x).size() == 1",
        {"min": 1},
        {"min": 1, "name": "a"},
        {},
    )
    yield case(
        "self.name != 'x' || self.mode in ['Fast']", {"name": "x", "mode": "Slow"}, {"name": "y"}
    )
    yield case(
        "string(self.min) + '-' + self.name == '1-a'",
        {"min": 1, "name": "a"},
        {"min": 2, "name": "a"},
    )
    yield case("int(self.size) > 5", {"size": "7"}, {"size": "3"}, {"size": "x"})
    yield case(
        "type(self.port) == int ? self.port < 100 : self.port.endsWith('%')",
        {"port": 5},
        {"port": "5%"},
        {"port": 500},
        {"port": "x"},
    )
    yield case("self.port > 5", {"port": 6}, {"port": "a"})
    yield case(
        "self.port == 'http' || self.port == 80", {"port": 80}, {"port": "http"}, {"port": 81}
    )
    # Kubernetes' strings, lists, sets and patterns.
    yield case(
        "self.name.lowerAscii() == 'abc' && self.name.upperAscii() == 'ABC'",
        {"name": "aBc"},
        {"name": "ab"},
    )
    yield case("self.name.trim() == self.name", {"name": "a b"}, {"name": " a"})
    yield case("self.name.replace('a', 'b', 1) == 'bca'", {"name": "aca"}, {"name": "bcb"})
    yield case("self.name.split('.').size() == 3", {"name": "a.b.c"}, {"name": "a.b"})
    yield case("self.name.split(',', 2)[1] == 'b,c'", {"name": "a,b,c"}, {"name": "a"})
    yield case(
        "self.name.substring(1, 3) == 'bc' && self.name.charAt(0) == 'a'",
        {"name": "abcd"},
        {"name": "abdc"},
        {"name": "a"},
    )
    yield case(
        "self.name.indexOf('b') == 1 && self.name.lastIndexOf('b') == 3",
        {"name": "abab"},
        {"name": "bbbb"},
    )
    yield case("self.words.join('-') == 'a-b'", {"words": ["a", "b"]}, {"words": ["a"]})
    yield case("'%s has %d'.format([self.name, self.min]) == 'a has 1'", {"name": "a", "min": 1})
    yield case("self.name.find('[0-9]+') == '12'", {"name": "ab12cd3"}, {"name": "ab"})
    yield case("self.name.findAll('[0-9]+').size() == 2", {"name": "a1b22"}, {"name": "a1"})
    yield case("self.name.findAll('[a-z]', 2) == ['a', 'b']", {"name": "a1b2c"}, {"name": "b1a"})
    yield case("self.numbers.sum() == 6", {"numbers": [1, 2, 3]}, {"numbers": [1]})
    yield case(
        "self.numbers.isSorted() && self.numbers.max() < 9",
        {"numbers": [1, 2]},
        {"numbers": [2, 1]},
        {"numbers": []},
    )
    yield case(
        "self.numbers.min() == 1 && self.numbers.indexOf(2) == 1",
        {"numbers": [1, 2]},
        {"numbers": [2, 2]},
    )
    yield case("self.words.isSorted()", {"words": ["a", "b"]}, {"words": ["b", "a"]})
    yield case("sets.contains(self.words, ['a'])", {"words": ["b", "a"]}, {"words": ["b"]})
    yield case(
        "sets.equivalent(self.words, ['a', 'b'])", {"words": ["b", "a", "a"]}, {"words": ["b"]}
    )
    yield case("!sets.intersects(self.words, ['x', 'y'])", {"words": ["b"]}, {"words": ["b", "x"]})
    # Macros.
    yield case(
        "self.steps.all(x, self.steps.exists_one(y, y.name == x.name))",
        {"steps": [{"name": "a"}, {"name": "b"}]},
        {"steps": [{"name": "a"}, {"name": "a"}]},
    )
    yield case(
        "self.steps.exists(x, x.port > 5)",
        {"steps": [{"name": "a"}, {"name": "b", "port": 6}]},
        {"steps": [{"name": "a"}]},
        {"steps": []},
    )
    yield case(
        "self.steps.map(x, has(x.port), x.port).sum() <= 10",
        {"steps": [{"name": "a", "port": 9}, {"name": "b"}]},
        {"steps": [{"name": "a", "port": 11}]},
    )
    yield case(
        "self.steps.filter(x, x.name.startsWith('a')).size() < 2",
        {"steps": [{"name": "a"}]},
        {"steps": [{"name": "a"}, {"name": "ab"}]},
    )
    yield case(
        "self.labels.all(key, key.size() < 5 && self.labels[key] != '')",
        {"labels": {"a": "b"}},
        {"labels": {"abcdef": "b"}},
        {"labels": {"a": ""}},
    )
    yield case(
        "'a' in self.labels && self.labels.a == 'b'", {"labels": {"a": "b"}}, {"labels": {"c": "b"}}
    )
    yield case("self.labels['x'] == 'y'", {"labels": {"x": "y"}}, {"labels": {}})
    yield case("self.words[0] == 'a'", {"words": ["a"]}, {"words": []})
    yield case(
        "size(self.labels) == size(self.words)",
        {"labels": {"a": "b"}, "words": ["x"]},
        {"labels": {}, "words": ["x"]},
    )
    # Optional values.
    yield case("self.?inner.?a.orValue('none') == 'none'", {"inner": {}}, {}, {"inner": {"a": "x"}})
    yield case("self.?inner.a.hasValue()", {"inner": {"a": "x"}}, {"inner": {}}, {})
    yield case(
        "self.?words[?0].optMap(x, x == 'a').orValue(true)", {}, {"words": ["a"]}, {"words": ["b"]}
    )
    yield case(
        "optional.ofNonZeroValue(self.name).or(optional.of('z')).value() != 'z'",
        {"name": "a"},
        {"name": ""},
    )
    # Times.
    yield case(
        "self.at < self.until",
        {"at": "2024-01-01T00:00:00Z", "until": "2024-01-01T02:00:00+01:00"},
        {"at": "2024-01-02T00:00:00Z", "until": "2024-01-01T00:00:00Z"},
    )
    yield case(
        "self.until - self.at <= duration('24h')",
        {"at": "2024-01-01T00:00:00Z", "until": "2024-01-02T00:00:00Z"},
        {"at": "2024-01-01T00:00:00Z", "until": "2024-01-03T00:00:00Z"},
    )
    yield case(
        "self.at.getFullYear() == 2024 && self.at.getMonth() == 0"
        " && self.at.getHours('02:00') == 2",
        {"at": "2024-01-01T00:00:00Z"},
        {"at": "2023-01-01T00:00:00Z"},
    )
    yield case(
        "self.day > timestamp('2024-01-01T00:00:00Z')", {"day": "2024-01-02"}, {"day": "2023-01-02"}
    )
    yield case(
        "self.wait >= duration('1m') && self.wait.getSeconds() < 3600",
        {"wait": "90s"},
        {"wait": "30s"},
        {"wait": "2h"},
    )
    yield case("self.raw == b'abc'", {"raw": "YWJj"}, {"raw": "YWJk"})
    # URLs, addresses, quantities, formats.
    yield case(
        "isURL(self.host) && url(self.host).getScheme() == 'https'",
        {"host": "https://a.b/c"},
        {"host": "http://a.b"},
        {"host": "a b"},
    )
    yield case(
        "url(self.host).getHostname() == 'a.b' && url(self.host).getPort() == '80'",
        {"host": "http://a.b:80/x"},
        {"host": "http://a.b"},
        {"host": "nope"},
    )
    yield case(
        "url(self.host).getQuery()['k'] == ['1', '2'] && url(self.host).getEscapedPath() == '/p'",
        {"host": "http://h/p?k=1&k=2"},
        {"host": "http://h/p?k=1"},
    )
    yield case(
        "isIP(self.host) && ip(self.host).family() == 4 && !ip(self.host).isLoopback()",
        {"host": "10.0.0.1"},
        {"host": "127.0.0.1"},
        {"host": "::1"},
        {"host": "x"},
    )
    yield case(
        "ip(self.host).isGlobalUnicast()", {"host": "8.8.8.8"}, {"host": "224.0.0.1"}, {"host": "x"}
    )
    yield case("ip.isCanonical(self.host)", {"host": "::1"}, {"host": "0::1"})
    yield case(
        "cidr('10.0.0.0/8').containsIP(self.host)", {"host": "10.1.2.3"}, {"host": "11.1.2.3"}
    )
    yield case(
        "cidr('10.0.0.0/8').containsCIDR(self.host)",
        {"host": "10.1.0.0/16"},
        {"host": "11.0.0.0/16"},
    )
    yield case(
        "isCIDR(self.host) && cidr(self.host).prefixLength() <= 24"
        " && cidr(self.host) == cidr(self.host).masked()",
        {"host": "10.0.0.0/8"},
        {"host": "10.0.0.1/8"},
        {"host": "10.0.0.0/32"},
    )
    yield case(
        "quantity(self.size).isLessThan(quantity('2Gi'))",
        {"size": "1Gi"},
        {"size": "3Gi"},
        {"size": "x"},
    )
    yield case(
        "isQuantity(self.size) && quantity(self.size).compareTo(quantity('1000m')) == 0",
        {"size": "1"},
        {"size": "2"},
        {"size": "x"},
    )
    yield case(
        "quantity(self.size).add(quantity('500m')).asApproximateFloat() == 1.0",
        {"size": "0.5"},
        {"size": "1"},
    )
    yield case(
        "quantity(self.size).isInteger() && quantity(self.size).sub(1).asInteger() == 1",
        {"size": "2"},
        {"size": "1500m"},
    )
    yield case(
        "!format.dns1123Label().validate(self.name).hasValue()", {"name": "a-b"}, {"name": "A"}
    )
    yield case(
        "format.named('uuid').hasValue()"
        " && !format.named('uuid').value().validate(self.name).hasValue()",
        {"name": "0b8e8f4e-98c5-4a0c-b1e3-5f0d6f0a1b2c"},
        {"name": "x"},
    )
    # Names that are escaped.
    yield case(
        "self.my__dash__field == 'a' && self.a__dot__b == 'b' && self.c__slash__d == 'c'",
        {"my-field": "a", "a.b": "b", "c/d": "c"},
        {"my-field": "x", "a.b": "b", "c/d": "c"},
    )
    yield case(
        "self.x__underscores__y == 'a' && self.__namespace__ != 'kube-system'",
        {"x__y": "a", "namespace": "b"},
        {"x__y": "a", "namespace": "kube-system"},
    )
    # Change.
    yield case(
        "self == oldSelf",
        {"name": "a"},
        ({"name": "b"}, {"name": "a"}),
        ({"name": "b"}, {"name": "b"}),
        at="name",
    )
    yield case(
        "self >= oldSelf",
        ({"min": 3}, {"min": 2}),
        ({"min": 1}, {"min": 2}),
        ({}, {"min": 2}),
        at="min",
    )
    yield case(
        "oldSelf.on ? self.on : true", ({"on": False}, {"on": True}), ({"on": True}, {"on": False})
    )
    yield case(
        "!has(oldSelf.name) || has(self.name)",
        ({}, {"name": "a"}),
        ({"name": "b"}, {"name": "a"}),
        ({}, {}),
    )
    yield case(
        "self.port == oldSelf.port",
        (
            {"ports": [{"name": "a", "port": 2}]},
            {"ports": [{"name": "b", "port": 1}, {"name": "a", "port": 1}]},
        ),
        ({"ports": [{"name": "c", "port": 2}]}, {"ports": [{"name": "a", "port": 1}]}),
        at="ports,items",
    )
    yield case(
        "self == oldSelf",
        ({"labels": {"a": "1", "b": "1"}}, {"labels": {"a": "2"}}),
        ({"labels": {"b": "1"}}, {"labels": {"a": "2"}}),
        at="labels,additionalProperties",
    )
    yield case(
        "self == oldSelf",
        ({"tags": ["b", "a"]}, {"tags": ["a", "b"]}),
        ({"tags": ["b"]}, {"tags": ["a", "b"]}),
        at="tags",
    )
    yield case(
        "self == oldSelf",
        ({"ports": [{"name": "a"}, {"name": "b"}]}, {"ports": [{"name": "b"}, {"name": "a"}]}),
        ({"ports": [{"name": "a", "port": 1}]}, {"ports": [{"name": "a"}]}),
        at="ports",
    )
    yield case(
        "self == oldSelf",
        ({"fixed": {"a": "x"}}, {"fixed": {"a": "y"}}),
        ({"fixed": {"a": "x"}}, {"fixed": {"a": "x"}}),
        at="fixed",
    )
    yield case(
        "oldSelf.all(x, self.exists(y, y == x))",
        ({"words": ["a", "b"]}, {"words": ["a"]}),
        ({"words": ["b"]}, {"words": ["a"]}),
        at="words",
    )
    yield case(
        {"rule": "oldSelf.hasValue() || self == 'a'", "optionalOldSelf": True},
        {"name": "a"},
        {"name": "b"},
        ({"name": "b"}, {"name": "a"}),
        at="name",
    )
    yield case(
        {"rule": "oldSelf.orValue('z') != self", "optionalOldSelf": True},
        {"name": "z"},
        ({"name": "a"}, {"name": "b"}),
        at="name",
    )
    # What is as it was may go on breaking a rule.
    yield case(
        "self.size() > 3",
        ({"name": "ab"}, {"name": "ab"}),
        ({"name": "ab"}, {"name": "cd"}),
        at="name",
    )
    yield case("self.min < 5", ({"min": 9, "max": 1}, {"min": 9}), ({"min": 9}, {"min": 9}))
    yield case(
        "self.port < 5",
        ({"steps": [{"name": "a", "port": 9}]}, {"steps": [{"name": "a", "port": 9}]}),
        ({"steps": [{"name": "a", "port": 9}]}, {"steps": []}),
        at="steps,items",
    )
    yield case(
        "self.port < 5",
        (
            {"ports": [{"name": "b"}, {"name": "a", "port": 9}]},
            {"ports": [{"name": "a", "port": 9}, {"name": "b"}]},
        ),
        at="ports,items",
    )
    # What is reported.
    yield case({"rule": "self.min > 1", "message": "too small"}, {"min": 1}, {})
    yield case({"rule": "self.min > 1", "message": " padded "}, {"min": 1})
    yield case(
        {"rule": "self.min > 1", "messageExpression": "'found ' + string(self.min)"}, {"min": 1}
    )
    yield case(
        {"rule": "self.min > 1", "messageExpression": "self.name", "message": "plain"},
        {"min": 1},
        {"min": 1, "name": "  "},
        {"min": 1, "name": "why"},
    )
    yield case(
        {"rule": "self.min > 1", "reason": "FieldValueForbidden", "message": "no"}, {"min": 1}
    )
    yield case({"rule": "self.min > 1", "reason": "FieldValueRequired"}, {"min": 1})
    yield case({"rule": "self.min > 1", "reason": "FieldValueDuplicate"}, {"min": 1})
    yield case(
        {"rule": "self.min > 1", "reason": "FieldValueInvalid", "fieldPath": ".inner.a"}, {"min": 1}
    )
    yield case(
        {"rule": "self.name != 'x'", "fieldPath": ".name", "message": "no x"},
        {"steps": [{"name": "x"}]},
        at="steps,items",
    )
    yield case("self.size() < 3", {"labels": {"a": "abc"}}, at="labels,additionalProperties")
    yield case("self.metadata.name.startsWith('a')", {}, at="<root>")
    yield case("self.kind == 'Thing' && self.apiVersion.endsWith('/v2')", {}, at="<root>")
    yield case(
        "self.metadata.name != 'x' && self.kind != 'Secret'",
        {"part": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "n"}}},
        {"part": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n"}}},
        at="part",
    )
    # Definitions that are refused.
    yield case("self.missing == 1")
    yield case("self.min == 'a'")
    yield case("self.min + self.name == 'a'")
    yield case("self.min")
    yield case("self.name.nope()")
    yield case("other == 1")
    yield case("self.min ==")
    yield case("self.min == 1 &&")
    yield case("has(self)")
    yield case("self.name.matches('(')")
    yield case("duration('x') == duration('1s')")
    yield case("self.namespace == 'a'")
    yield case("self.free.a == 'b'")
    yield case("self.maybe == null")
    yield case("self.ports.all(x, x.missing)")
    yield case("self.numbers.all(x, x)")
    yield case("[1, 'a'].size() == 2")
    yield case("self.on ? 1 : 'a'")
    yield case("self.words.map(x, size(x)).exists(y, y == 'a')")
    yield case("cel.bind(x, self.min, x > 1)")
    yield case("self.words.all(i, x, i > 0)")
    yield case("self == oldSelf", at="words,items")
    yield case("self == oldSelf", at="tags,items")
    yield case("self.name == oldSelf.name", at="steps,items")
    yield case({"rule": "self > 1", "optionalOldSelf": True}, at="min")
    yield case({"rule": "self.min > 1", "messageExpression": "self.min"})
    yield case({"rule": "self.min > 1", "messageExpression": "self.nope"})
    yield case({"rule": "self.min > 1", "messageExpression": " "})
    yield case({"rule": "self.min > 1", "message": " "})
    yield case({"rule": "self.min > 1", "message": "a\nb"})
    yield case({"rule": "self.min >\n1"})
    yield case({"rule": " "})
    yield case({"rule": "self.min > 1", "reason": "Nope"})
    yield case({"rule": "self.min > 1", "fieldPath": ".nope"})
    yield case({"rule": "self.min > 1", "fieldPath": "min"})
    yield case("self.open.all(x, self.open.exists_one(y, y.name == x.name))")
    yield case("self.open.all(x, x.name.contains(self.loose))")
    yield case("self.name.contains('a')", at="open,items")
    yield case("self.open.all(x, x.name != 'a')", {"open": [{"name": "a"}]})
    yield case("self.loose.matches('^a.*b$')", {"loose": "ab"}, {"loose": "ba"})
    yield case(
        "self.steps.all(a, self.steps.all(b, "
        "self.steps.all(c, a.name != b.name || b.name == c.name)))",
        {"steps": [{"name": "a"}, {"name": "b"}]},
    )


CASES = list(_cases())


class RuleRequest(NamedTuple):
    """One request of a case. Only those with a place in the verdict are compared."""

    method: str
    path: str
    body: Any
    is_judged: bool


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def requests(number: int, one: RuleCase, namespace: str = "default") -> Iterator[RuleRequest]:
    """The definition first. Send the next only while the definition is accepted."""
    group = f"c{number}.cel.example.com"
    plain = one._replace(rules=()).schema()

    def thing(version: str, index: int, spec: Spec) -> dict[str, Any]:
        metadata = {"name": f"one-{index}", "namespace": namespace}
        if version == "update":
            metadata["resourceVersion"] = "@revision"
        shown = "v1" if version == "v1" else "v2"
        named = {"apiVersion": f"{group}/{shown}", "kind": "Thing", "metadata": metadata}
        return {**named, "spec": spec}

    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": each}}
        for name, each in (("v1", plain), ("v2", one.schema()))
    ]
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": versions,
        },
    }
    yield RuleRequest("POST", DEFINITIONS, definition, True)
    for index, (new, old) in enumerate(one.writes):
        paths = {v: f"/apis/{group}/{v}/namespaces/{namespace}/things" for v in ("v1", "v2")}
        if old is None:
            yield RuleRequest("POST", paths["v2"], thing("v2", index, new), True)
        else:
            yield RuleRequest("POST", paths["v1"], thing("v1", index, old), False)
            path = f"{paths['v2']}/one-{index}"
            yield RuleRequest("PUT", path, thing("update", index, new), True)


def verdict(answer: Any) -> Causes:
    """What a refusal says of each field; empty when the write was accepted."""
    if not isinstance(answer, dict) or answer.get("kind") != "Status":
        return []
    causes = (answer.get("details") or {}).get("causes") or []
    found = [
        [one.get("field", ""), one.get("reason", ""), one.get("message", "")] for one in causes
    ]
    return sorted(found) or [["", answer.get("reason", ""), answer.get("message", "")]]


def comparable(causes: Causes) -> Causes:
    """Without the wording of errors that the compiler and parsers of the language have."""
    return [[field, reason, _shown(message)] for field, reason, message in causes]


def _shown(message: str) -> str:
    if "compilation failed" in message:
        return "compilation failed"
    if " evaluating rule: " in message and not any(one in message for one in _OWN_WORDS):
        return f"failure{message[message.rindex(' evaluating rule: ') :]}"
    if " must evaluate to a " in message:  # a real server shows the rule as a value of Go
        return message.rpartition(": ")[2]
    if "exceeds budget by factor of" in message:
        return message.partition(" by factor of")[0]
    return message


_OWN_WORDS = ("no such key", "index out of bounds", "division by zero", "integer overflow")
