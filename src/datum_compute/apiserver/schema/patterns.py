"""Regular expressions as CustomResourceDefinitions write them: RE2, run by Python's engine.

The two agree on nearly everything in use. Translated are ``$`` and ``\\z`` (RE2's end of
text, where Python's ``$`` also accepts a final newline), ``\\Q…\\E`` and POSIX classes;
character classes mean ASCII as in RE2. Refused are look-around and back-references, which
RE2 does not have, so that a definition accepted here is accepted by a real server.

RE2 never backtracks and Python does: nested repetition such as ``(a+)+$`` can take
exponential time on a hostile value. The only protection is that schemas are written by operators of
the platform, not by users.
"""

from __future__ import annotations

import re

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r"\t ",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": r"0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
    "^digit": r"\D",
    "^space": r"\S",
    "^word": r"\W",
}
_MULTILINE = re.compile(r"\(\?[a-z]*m")
_TOKEN = re.compile(
    r"""\\Q(?P<literal>.*?)(?:\\E|\Z)
      | \\(?P<escape>.)
      | (?P<look>\(\?(?:[=!]|<[=!]|P=|\())
      | \[:(?P<posix>\^?\w+):\]
      | (?P<open>\[\^?\]?)
      | (?P<close>\])
      | (?P<end>\$)
      | (?P<plain>.)
    """,
    re.VERBOSE | re.DOTALL,
)


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Raises ValueError, saying why, when RE2 would refuse the pattern."""
    try:
        return re.compile(_translate(pattern), re.ASCII)
    except re.error as error:
        raise ValueError(str(error)) from error


def _translate(pattern: str) -> str:
    parts: list[str] = []
    multiline = _MULTILINE.search(pattern) is not None
    in_class = False
    for token in _TOKEN.finditer(pattern):
        kind, text = token.lastgroup, token[0]
        if kind == "literal":
            parts.append(re.escape(token["literal"]))
        elif kind == "escape":
            parts.append(_escape(token["escape"], in_class))
        elif kind == "look" and not in_class:
            raise ValueError(f"invalid or unsupported Perl syntax: `{text}`")
        elif kind == "posix" and in_class:
            parts.append(_posix(token["posix"]))
        elif kind == "open":
            # Inside a class a bracket is itself; a class may open with "]" as itself.
            parts.append(_opening(text) if not in_class else text.replace("[", r"\["))
            in_class = True
        elif kind == "close":
            parts.append("]")
            in_class = False
        elif kind == "end" and not in_class and not multiline:
            parts.append(r"\Z")
        else:
            parts.append(text)
    return "".join(parts)


def _opening(text: str) -> str:
    return text.replace("]", r"\]")


def _escape(character: str, in_class: bool) -> str:
    if character == "z" and not in_class:
        return r"\Z"
    if character == "Z" or (character.isdigit() and character != "0"):
        raise ValueError(rf"invalid escape sequence: `\{character}`")
    return f"\\{character}"


def _posix(name: str) -> str:
    if name not in _POSIX:
        raise ValueError(f"invalid character class range: `[:{name}:]`")
    return _POSIX[name]
