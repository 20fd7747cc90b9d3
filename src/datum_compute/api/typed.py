"""What ``typing`` offers, for modules that a short command loads.

A type checker sees the real thing. At run time annotations are never looked at, and loading
what makes them costs such a command a tenth of its time, so stand-ins are enough: a name
for what only annotations mention, and the one maker of classes that is really needed.
"""

from __future__ import annotations

__all__ = ["Any", "NamedTuple", "Protocol", "TextIO"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NamedTuple, Protocol, TextIO
else:
    from collections import namedtuple

    Any = TextIO = Protocol = object

    class _Maker(type):
        """Makes a tuple with names of a class whose annotations name its fields."""

        def __new__(cls, name, bases, namespace):
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            fields = tuple(namespace["__annotations__"])
            defaults = [namespace.pop(field) for field in fields if field in namespace]
            made = namedtuple(name, fields, defaults=defaults, module=namespace["__module__"])
            return type(name, (made,), {**namespace, "__slots__": ()})

    class NamedTuple(metaclass=_Maker):
        pass
