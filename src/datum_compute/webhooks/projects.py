"""The cities and networks a project may use, and what a user may read, asked live of its plane.

A stale cache could refuse a city that was bound a moment ago, and Workloads are written rarely.
A project that does not answer in time leaves the review undecided, and an undecided review is
never allowed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from datum_compute.api import conditions, core
from datum_compute.api.core import UserInfo
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.decisions.admission import Needs, Offer

PARENT_TYPE = "iam.miloapis.com/parent-type"
PARENT_NAME = "iam.miloapis.com/parent-name"

READ_SECONDS = 5.0
"""The deadline for all reads of one review. API servers wait ten seconds for a webhook by default,
and a refusal with its cause is better than a timeout."""

ClientOf = Callable[[str], Client | None]
"""From a project's name to a client of its plane; None while there is none."""


class OfferUnavailable(Exception):
    """The project could not be read; the message names it and the cause."""


class NoProject(Exception):
    """The request names no project."""


def named_project(user: UserInfo) -> str:
    """The project of a user, from the extras that Milo sets. Raises :class:`NoProject`."""
    kind = user.extra.get(PARENT_TYPE, ("Project",))
    names = user.extra.get(PARENT_NAME, ())
    if kind != ("Project",) or len(names) != 1 or not names[0]:
        raise NoProject(
            f'user "{user.username}" acts in no project: expected extra {PARENT_NAME} to name one'
        )
    return names[0]


class OfferReader:
    """Reads what a project offers to a user."""

    def __init__(
        self, client_of: ClientOf, *, single: str = "", delivers_data: bool = True
    ) -> None:
        """``single`` names the only cluster; otherwise a user's extras name the project."""
        self._client_of = client_of
        self._single = single
        self._delivers_data = delivers_data

    async def offer(self, user: UserInfo, namespace: str, needs: Needs) -> Offer:
        """The part of the offer in ``needs``; the rest is not read. Raises
        :class:`OfferUnavailable` and :class:`NoProject`."""
        if not needs.cities and not needs.networks and not needs.data:
            return Offer(None, delivers_data=self._delivers_data)
        project = self._single or named_project(user)
        client = self._client_of(project)
        if client is None:
            raise OfferUnavailable(f'project "{project}" is not known here yet')
        try:
            async with asyncio.timeout(READ_SECONDS):
                return Offer(
                    cities=await _cities(client) if needs.cities else None,
                    networks=await _existing(client, namespace, needs.networks),
                    denied=await _denied(client, user, namespace, needs.networks),
                    denied_data=await _denied_data(client, user, namespace, needs.data),
                    delivers_data=self._delivers_data,
                )
        except TimeoutError as error:
            raise OfferUnavailable(f'project "{project}" did not answer in time') from error
        except errors.ClientError as error:
            raise OfferUnavailable(f'project "{project}" could not be read: {error}') from error


async def _cities(project_client: Client) -> tuple[str, ...]:
    found = await project_client.list(networking.LOCATION_BINDINGS)
    bindings = [each.view(networking.LocationBinding) for each in found.items]
    return tuple(
        sorted(
            {
                binding.city_code
                for binding in bindings
                if binding.city_code
                and conditions.is_true(
                    binding.status.conditions, networking.CONDITION_LOCATION_AVAILABLE
                )
            }
        )
    )


async def _existing(
    project_client: Client, namespace: str, names: tuple[str, ...]
) -> frozenset[str]:
    found = set()
    for name in names:
        try:
            await project_client.get(networking.NETWORKS, name, namespace)
            found.add(name)
        except (errors.NotFound, errors.NotServed):
            pass
    return frozenset(found)


async def _denied(
    project_client: Client, user: UserInfo, namespace: str, names: tuple[str, ...]
) -> frozenset[str]:
    denied = set()
    for name in names:
        if not await _is_allowed(project_client, user, "use", networking.NETWORKS, namespace, name):
            denied.add(name)
    return frozenset(denied)


async def _denied_data(
    project_client: Client, user: UserInfo, namespace: str, data: tuple[tuple[str, str], ...]
) -> frozenset[tuple[str, str]]:
    denied = set()
    for kind, name in data:
        resource = next(each for each in (core.CONFIG_MAPS, core.SECRETS) if each.kind == kind)
        if not await _is_allowed(project_client, user, "get", resource, namespace, name):
            denied.add((kind, name))
    return frozenset(denied)


async def _is_allowed(
    project_client: Client,
    user: UserInfo,
    verb: str,
    resource: Resource,
    namespace: str,
    name: str,
) -> bool:
    body = _access_review(user, verb, resource, namespace, name)
    review = await project_client.create(core.SUBJECT_ACCESS_REVIEWS, body)
    return review.view(core.SubjectAccessReview).status.allowed


def _access_review(
    user: UserInfo, verb: str, resource: Resource, namespace: str, name: str
) -> dict[str, object]:
    """Whether this user may do that. With all extras: an authorizer may need them to find the
    project's rules."""
    return {
        "spec": {
            "user": user.username,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
            "resourceAttributes": {
                "verb": verb,
                "group": resource.group,
                "version": resource.version,
                "resource": resource.plural,
                "namespace": namespace,
                "name": name,
            },
        }
    }
