"""Admission of ResourceClaims by the registrations of the root plane.

Milo's API server has this built in; here the embedded one sends each new claim for review. A
claim of an unregistered resource type, or whose claimant or consumer is of a kind that the
registration does not list, is refused. Registrations are cached for a moment, because claims
come in bursts; before a refusal they are read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.standins.milo_quota.registrations import ClaimRules, rules_of, validate_claim

REMEMBERED_SECONDS = 1.0
"""How long registrations are cached. A guess: a burst of claims is shorter."""

Review = dict[str, Any]
"""An AdmissionReview as JSON values."""


class ClaimReviews:
    def __init__(self, root_client: Callable[[], Client]) -> None:
        """``root_client`` is called with the first review: the root plane may not be served
        before."""
        self._root_client = root_client
        self._rules: ClaimRules = {}
        self._read_at: float | None = None

    async def mutate(self, review: Review) -> Review:
        """Changes nothing: a claim without a consumer belongs to its project."""
        return _answer(review)

    async def validate(self, review: Review) -> Review:
        if review["request"]["operation"] != "CREATE":
            return _answer(review)
        try:
            claim = msgspec.convert(review["request"]["object"], quota.ResourceClaim, strict=False)
        except msgspec.ValidationError as error:
            return _answer(review, 403, "Forbidden", str(error))
        try:
            faults = await self._faults(claim)
        except (errors.ClientError, TimeoutError) as error:
            message = f"the registrations cannot be read: {error}; try again"
            return _answer(review, 503, "ServiceUnavailable", message)
        if faults:
            return _answer(review, 403, "Forbidden", "; ".join(faults))
        return _answer(review)

    async def _faults(self, claim: quota.ResourceClaim) -> list[str]:
        now = asyncio.get_running_loop().time()
        if self._read_at is not None and now - self._read_at < REMEMBERED_SECONDS:
            faults = validate_claim(claim, self._rules)
            if not faults:
                return faults
        found = await self._root_client().list(quota.RESOURCE_REGISTRATIONS)
        self._rules, self._read_at = rules_of(found.items), now
        return validate_claim(claim, self._rules)


def _answer(review: Review, code: int = 0, reason: str = "", message: str = "") -> Review:
    response: dict[str, Any] = {"uid": review["request"]["uid"], "allowed": not code}
    if code:
        response["status"] = {
            "status": "Failure",
            "code": code,
            "reason": reason,
            "message": message,
        }
    return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
