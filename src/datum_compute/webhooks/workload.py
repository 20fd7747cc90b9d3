"""Reviews of Workloads.

:meth:`WorkloadReviews.mutate` sets defaults; :meth:`WorkloadReviews.validate` decides. Both
take and return a review as JSON values and have no side effects, so a dry run is answered like
any other. Nothing is read for a write that adds no city and no network and changes nothing that
runs, so controllers can write finalizers while a project is unreachable.
"""

from __future__ import annotations

from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.admission import decide_admission, decide_defaults, decide_needs
from datum_compute.log import get_logger
from datum_compute.webhooks import review
from datum_compute.webhooks.projects import NoProject, OfferReader, OfferUnavailable
from datum_compute.webhooks.review import Refusal, ReviewRequest, ReviewResponse

MUTATE_PATH = "/mutate-compute-datumapis-com-v1alpha-workload"
VALIDATE_PATH = "/validate-compute-datumapis-com-v1alpha-workload"

logger = get_logger(__name__)

_REVIEWED = ("CREATE", "UPDATE")


class WorkloadReviews:
    def __init__(self, projects: OfferReader, *, sleeps: bool = True) -> None:
        """``sleeps`` says whether Instances can sleep where they run."""
        self._projects = projects
        self._sleeps = sleeps

    async def mutate(self, values: Any) -> dict[str, Any]:
        """Raises :class:`~datum_compute.webhooks.review.BadReview`."""
        request = _request(values)
        patch = tuple(
            {"op": "add", "path": _pointer(default.path), "value": default.value}
            for default in (decide_defaults(request.object) if _is_reviewed(request) else ())
        )
        return review.to_wire(request.uid, ReviewResponse(patch=patch))

    async def validate(self, values: Any) -> dict[str, Any]:
        """Raises :class:`~datum_compute.webhooks.review.BadReview`."""
        request = _request(values)
        answer = await self._decide(request) if _is_reviewed(request) else ReviewResponse()
        if answer.refusal is not None:
            _log(request, answer.refusal)
        return review.to_wire(request.uid, answer)

    async def _decide(self, request: ReviewRequest) -> ReviewResponse:
        old = request.old_object if request.operation == "UPDATE" else None
        workload = _in_namespace(request.object, request.namespace)
        old = _in_namespace(old, request.namespace)
        needs = decide_needs(workload, old)
        try:
            offer = await self._projects.offer(request.user_info, request.namespace, needs)
        except NoProject as error:
            return ReviewResponse(Refusal(403, "Forbidden", str(error)))
        except OfferUnavailable as error:
            return ReviewResponse(
                review.unavailable(f"the workload cannot be reviewed now: {error}; try again")
            )
        decision = decide_admission(workload, offer=offer, old=old, sleeps=self._sleeps)
        if decision.errors:
            refusal = review.invalid(compute.WORKLOADS, _name(request), decision.errors)
            return ReviewResponse(refusal, decision.warnings)
        return ReviewResponse(warnings=decision.warnings)


def _request(values: Any) -> ReviewRequest:
    request = review.from_wire(values)
    review.check_resource(request, compute.WORKLOADS)
    return request


def _is_reviewed(request: ReviewRequest) -> bool:
    return request.operation in _REVIEWED and not request.sub_resource


def _in_namespace(workload: Any, namespace: str) -> Any:
    """The workload with its namespace, which its metadata may leave out."""
    metadata = workload.get("metadata") if isinstance(workload, dict) else None
    if not isinstance(metadata, dict):
        return workload
    return {**workload, "metadata": {**metadata, "namespace": namespace}}


def _name(request: ReviewRequest) -> str:
    if request.name:
        return request.name
    metadata = request.object.get("metadata") if isinstance(request.object, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def _pointer(path: tuple[str | int, ...]) -> str:
    """A JSON pointer; no field of a default needs escaping."""
    return "".join(f"/{step}" for step in path)


def _log(request: ReviewRequest, refusal: Refusal) -> None:
    logger.info(
        "workload refused",
        namespace=request.namespace,
        name=_name(request),
        operation=request.operation,
        reason=refusal.reason,
    )
