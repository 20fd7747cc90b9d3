"""From text to a tree.

Logical chains are one node each, so that a long rule is not a deep one. Macros are calls here;
the compiler knows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import Any, NamedTuple, NoReturn

MAX_CHARACTERS = 16 * 1024
"""Of one expression. A guess: ten times the longest of the Gateway API's."""
MAX_DEPTH = 64
"""Of nested brackets and operators. A guess; the interpreter's stack holds some five times as
many."""


class CompileError(Exception):
    """The expression cannot be used; the text points at the place."""

    def __init__(self, source: str, at: int, why: str) -> None:
        line = source.count("\n", 0, at) + 1
        column = at - (source.rfind("\n", 0, at) + 1)
        shown = (source.splitlines() or [""])[min(line, len(source.splitlines()) or 1) - 1]
        mark = f"\n | {shown}\n | {'.' * column}^"
        super().__init__(f"ERROR: <input>:{line}:{column + 1}: {why}{mark}")


class Expr(NamedTuple):
    """``kind`` is one of const, ident, select, optselect, call, member, list, map, and, or."""

    kind: str
    at: int
    value: Any = None
    """The constant, the name, or of a list or map which entries are optional."""
    args: tuple[Expr, ...] = ()


_TOKEN = re.compile(
    r"""(?P<space>[\s]+|//[^\n]*)
    |(?P<number>0x[0-9a-fA-F]+u?|\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?|\d+u?)
    |(?P<text>[rRbB]{0,2}(?:\"{3}(?s:.*?)(?<!\\)\"{3}|'{3}(?s:.*?)(?<!\\)'{3}))
    |(?P<raw>[bB]?[rR][bB]?(?:"[^"\n]*"|'[^'\n]*'))
    |(?P<quoted>[bB]?(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<mark>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|X([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))",
    re.DOTALL,
)
_ESCAPES = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))
_LITERALS = {"true": True, "false": False, "null": None}
RESERVED = frozenset(_LITERALS) | frozenset(
    re.findall(
        r"\w+",
        "as break const continue else for function if import in let loop namespace package return"
        " var void while",
    )
)
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("==", "!=", "<", "<=", ">", ">=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)


class Uint(int):
    """An unsigned integer, which is a type of its own."""


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse(source: str) -> Expr:
    """Raises CompileError."""
    if len(source) > MAX_CHARACTERS:
        why = f"the expression has {len(source)} characters, and at most {MAX_CHARACTERS} are taken"
        raise CompileError(source[:80], 0, why)
    return _Parser(source).whole()


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = list(self._scan())
        self.position = 0
        self.depth = 0

    def _scan(self) -> Iterator[_Token]:
        at = 0
        while at < len(self.source):
            found = _TOKEN.match(self.source, at)
            if found is None:
                why = f"Syntax error: token recognition error at: '{self.source[at]}'"
                raise CompileError(self.source, at, why)
            if found.lastgroup != "space":
                yield _Token(str(found.lastgroup), found[0], at)
            at = found.end()
        yield _Token("end", "<EOF>", len(self.source))

    def whole(self) -> Expr:
        expr = self.expression()
        if self.next.kind != "end":
            self.fail("expecting <EOF>")
        return expr

    @property
    def next(self) -> _Token:
        return self.tokens[self.position]

    def fail(self, wanted: str) -> NoReturn:
        why = f"Syntax error: mismatched input '{self.next.text}' {wanted}"
        raise CompileError(self.source, self.next.at, why)

    def take(self, *texts: str) -> _Token | None:
        token = self.next
        if token.text in texts and token.kind in ("mark", "name"):
            self.position += 1
            return token
        return None

    def expect(self, text: str) -> _Token:
        return self.take(text) or self.fail(f"expecting '{text}'")

    def expression(self) -> Expr:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            why = f"expression recursion limit exceeded: {MAX_DEPTH}"
            raise CompileError(self.source, self.next.at, why)
        condition = self.chain("||", "or")
        if mark := self.take("?"):
            chosen = self.chain("||", "or")
            self.expect(":")
            other = self.expression()
            condition = Expr("call", mark.at, "_?_:_", (condition, chosen, other))
        self.depth -= 1
        return condition

    def chain(self, operator: str, kind: str) -> Expr:
        parts, at = [], self.next.at
        while True:
            parts.append(self.chain("&&", "and") if kind == "or" else self.operation(0))
            mark = self.take(operator)
            if mark is None:
                break
            at = mark.at
        return parts[0] if len(parts) == 1 else Expr(kind, at, None, tuple(parts))

    def operation(self, level: int) -> Expr:
        if level == len(_LEVELS):
            return self.unary()
        left, count = self.operation(level + 1), 0
        while mark := self.take(*_LEVELS[level]):
            count += 1
            if count > MAX_DEPTH:
                raise CompileError(
                    self.source, mark.at, f"more than {MAX_DEPTH} operators in a chain"
                )
            name = "@in" if mark.text == "in" else f"_{mark.text}_"
            left = Expr("call", mark.at, name, (left, self.operation(level + 1)))
        return left

    def unary(self) -> Expr:
        marks: list[_Token] = []
        while mark := self.take("!", "-"):
            if mark.text == "-" and self.next.kind == "number" and not marks:
                return self.member(self.number(mark))
            marks.append(mark)
        if len(marks) > MAX_DEPTH:
            self.fail("after too many operators")
        expr = self.member(self.primary())
        for mark in reversed(marks):
            expr = Expr("call", mark.at, f"{mark.text}_", (expr,))
        return expr

    def member(self, expr: Expr) -> Expr:
        steps = 0
        while True:
            steps += 1
            if steps > MAX_DEPTH:
                self.fail("after too many steps")
            if mark := self.take("."):
                is_optional = self.take("?") is not None
                name = self.name(_LITERALS.keys() | {"in"})
                if not is_optional and self.next.text == "(":
                    at = self.next.at
                    expr = Expr("member", at, name, (expr, *self.arguments()))
                else:
                    kind = "optselect" if is_optional else "select"
                    expr = Expr(kind, mark.at, name, (expr,))
            elif mark := self.take("["):
                operator = "_[?_]" if self.take("?") else "_[_]"
                index = self.expression()
                self.expect("]")
                expr = Expr("call", mark.at, operator, (expr, index))
            else:
                return expr

    def name(self, refused: Set[str] = RESERVED) -> str:
        if self.next.kind != "name" or self.next.text in refused:
            self.fail("expecting IDENTIFIER")
        self.position += 1
        return self.tokens[self.position - 1].text

    def arguments(self) -> tuple[Expr, ...]:
        self.expect("(")
        return tuple(entry for entry, _ in self.entries(")"))

    def entries(self, end: str) -> list[tuple[Expr, bool]]:
        """Expressions up to ``end``, and whether each is optional."""
        found = []
        while not self.take(end):
            is_optional = self.take("?") is not None
            found.append((self.expression(), is_optional))
            if not self.take(","):
                self.expect(end)
                break
        return found

    def primary(self) -> Expr:
        token = self.next
        if self.take("("):
            inner = self.expression()
            self.expect(")")
            return inner
        if self.take("["):
            entries = self.entries("]")
            return Expr("list", token.at, [o for _, o in entries], tuple(e for e, _ in entries))
        if self.take("{"):
            return self.mapping(token.at)
        if token.kind == "number":
            return self.number(None)
        if token.kind in ("text", "raw", "quoted"):
            self.position += 1
            return Expr("const", token.at, self.text(token))
        if token.text in _LITERALS:
            self.position += 1
            return Expr("const", token.at, _LITERALS[token.text])
        self.take(".")
        at = self.next.at
        name = self.name()
        if self.next.text == "(":
            at = self.next.at
            return Expr("call", at, name, self.arguments())
        return Expr("ident", at, name)

    def mapping(self, at: int) -> Expr:
        entries: list[Expr] = []
        optional = []
        while not self.take("}"):
            optional.append(self.take("?") is not None)
            entries.append(self.expression())
            self.expect(":")
            entries.append(self.expression())
            if not self.take(","):
                self.expect("}")
                break
        return Expr("map", at, optional, tuple(entries))

    def number(self, minus: _Token | None) -> Expr:
        token = self.next
        self.position += 1
        text, sign = token.text, -1 if minus else 1
        at = minus.at if minus else token.at
        if re.fullmatch(r"\d*\.\d+.*|\d+[eE].*", text) and not text.startswith("0x"):
            return Expr("const", at, sign * float(text))
        value = sign * int(text.rstrip("u"), 0 if text.startswith("0x") else 10)
        if text.endswith("u") and not minus and value < 2**64:
            return Expr("const", at, Uint(value))
        if text.endswith("u") or not -(2**63) <= value < 2**63:
            raise CompileError(self.source, at, "Syntax error: invalid int literal")
        return Expr("const", at, value)

    def text(self, token: _Token) -> str | bytes:
        prefix, body = re.match(r"([rRbB]*)(.*)", token.text, re.DOTALL).groups()  # type: ignore[union-attr]
        body = body[3:-3] if body[:3] in ('"""', "'''") else body[1:-1]
        is_bytes = "b" in prefix.lower()
        if "r" not in prefix.lower():
            body = _ESCAPE.sub(lambda found: self.escaped(found, token), body)
        return (
            body.encode("latin-1" if is_bytes and body.isascii() else "utf-8") if is_bytes else body
        )

    def escaped(self, found: re.Match[str], token: _Token) -> str:
        digits = next((group for group in found.groups()[:4] if group), None)
        if digits or found[5]:
            code = int(digits, 16) if digits else int(found[5], 8)
            if code < 0x110000 and not 0xD800 <= code < 0xE000:
                return chr(code)
        elif found[6] in _ESCAPES:
            return _ESCAPES[found[6]]
        raise CompileError(self.source, token.at, f"Syntax error: invalid escape: {found[0]}")
