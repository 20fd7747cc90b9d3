"""The kit every provider passes: what a cell expects of whatever runs its Instances.

Each check is one promise, stated in its name. It acts through the cell's API and compares states,
never calls; what lies behind a provider it sees through a :class:`Harness`, which the provider's
tests supply. A capability that a provider lacks is declared by its harness with a reason and with
how the provider shows it: the checks that need it then demand that. A test module runs them all::

    @pytest.mark.parametrize("check", conformance.CHECKS, ids=conformance.title)
    async def test_conformance(check): ...
"""

from datum_compute.providers.conformance import (
    commands,
    data,
    failures,
    lifecycle,
    logs,
    networks,
    processes,
    removal,
    sleep,
    suspension,
)
from datum_compute.providers.conformance.harness import (
    Capability,
    Check,
    ConformanceFailure,
    Failure,
    Harness,
    Lack,
    ObservedContainer,
    PrivateImage,
    title,
)

CHECKS = tuple(
    check
    for module in (
        lifecycle,
        removal,
        suspension,
        sleep,
        failures,
        processes,
        data,
        networks,
        logs,
        commands,
    )
    for check in vars(module).values()
    if isinstance(check, Check)
)

__all__ = [
    "CHECKS",
    "Capability",
    "Check",
    "ConformanceFailure",
    "Failure",
    "Harness",
    "Lack",
    "ObservedContainer",
    "PrivateImage",
    "title",
]
