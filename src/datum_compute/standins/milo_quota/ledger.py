"""What the claims of one consumer hold, kept up to date claim by claim.

Adding up all claims for each decision would cost more with every claim. So the ledger keeps what
each claim holds, the sums, and which claims to read again. The claims stay the source of truth: a
new ledger is filled from all of them, and a noted claim is read again.
"""

from __future__ import annotations

from collections.abc import Mapping

from datum_compute.standins.milo_quota.budget import ClaimKey


class Ledger:
    def __init__(self) -> None:
        self.allocated: dict[str, int] = {}
        """Amounts held, by resource type."""
        self.claims: dict[str, int] = {}
        """How many claims hold some of it."""
        self._held: dict[ClaimKey, Mapping[str, int]] = {}
        self._dirty: dict[ClaimKey, int] = {}
        self._notes = 0

    def note(self, claim: ClaimKey) -> None:
        """This claim was created, changed or deleted: read it in the next reconcile."""
        self._notes += 1
        self._dirty[claim] = self._notes

    def noted(self) -> dict[ClaimKey, int]:
        """The claims to read. The caller hands them to ``done`` when that has succeeded."""
        return dict(self._dirty)

    def done(self, noted: Mapping[ClaimKey, int]) -> None:
        """Forget these notes, except of claims that were noted again since."""
        for claim, number in noted.items():
            if self._dirty.get(claim) == number:
                del self._dirty[claim]

    def hold(self, claim: ClaimKey, amounts: Mapping[str, int]) -> None:
        """This claim holds exactly this; nothing once it is deleted."""
        before = self._held.pop(claim, {})
        if amounts:
            self._held[claim] = dict(amounts)
        for resource_type in sorted({*before, *amounts}):
            change = amounts.get(resource_type, 0) - before.get(resource_type, 0)
            count = (resource_type in amounts) - (resource_type in before)
            self.allocated[resource_type] = self.allocated.get(resource_type, 0) + change
            self.claims[resource_type] = self.claims.get(resource_type, 0) + count
