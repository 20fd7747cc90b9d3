"""Every kind of ours, and the built-in ones that plain reads name, as literals.

The modules that declare them load msgspec, which would take a plain read longer than the read.
"""

from __future__ import annotations

import sys

from datum_compute.api import core, planes
from datum_compute.api.kinds import KINDS
from datum_compute.api.scheme import Resource
from datum_compute.api.services import v1alpha1 as services

_KINDS = {kind.resource for kind in KINDS} | {core.CONFIG_MAPS, core.SECRETS, core.EVENTS}
_MODULES = (core, *(sys.modules[kind.view.__module__] for kind in KINDS))

RESOURCES = {
    name: value
    for module in _MODULES
    for name, value in vars(module).items()
    if isinstance(value, Resource) and value in _KINDS
}
"""By the name of its constant."""

HEAD = '''\
"""The resources that plain reads name, without the types of their kinds.

Generated from the API by ``make generate``; do not edit.
"""

from __future__ import annotations

from datum_compute.api.scheme import Resource
'''


def rendered() -> str:
    constants = {
        "NAMESPACE": (planes.PROJECT.namespaces[0], "Where a project's workloads are."),
        "SERVICE_COMPUTE": (
            services.SERVICE_COMPUTE,
            "The Service object that an entitlement names.",
        ),
    }
    texts = [f'{name} = "{value}"\n"""{text}"""\n' for name, (value, text) in constants.items()]
    resources = [_declared(name, resource) for name, resource in RESOURCES.items()]
    return "\n".join([HEAD, *texts, "".join(resources)])


def _declared(name: str, resource: Resource) -> str:
    fields = "".join(f"    {key}={_literal(value)},\n" for key, value in resource._asdict().items())
    return f"{name} = Resource(\n{fields})\n"


def _literal(value: str | bool) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
