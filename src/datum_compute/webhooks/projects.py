"""What the project of a request has to offer, read live from its plane.

A cache would be faster and could refuse a city that was bound a moment ago; Workloads are
written rarely enough to ask. Whatever does not answer in time leaves the question open, and
an open question is never a yes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from datum_compute.api import conditions, core
from datum_compute.api.core import UserInfo
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.decisions.admission import Needs, Offer

PARENT_TYPE = "iam.miloapis.com/parent-type"
PARENT_NAME = "iam.miloapis.com/parent-name"

READ_SECONDS = 5.0
"""For all that is read for one review. API servers wait ten seconds for a webhook unless
told otherwise, and a refusal that says why is better than one by timeout."""

ClientOf = Callable[[str], Client | None]
"""From a project's name to a client of its plane; None while there is none."""


class OfferUnavailable(Exception):
    """What it takes to judge could not be found out; the message says what and why."""


class NoProject(Exception):
    """The request does not say which project it is about."""


def named_project(user: UserInfo) -> str:
    """The project in which a user acts, as the platform around us has noted it."""
    kind = user.extra.get(PARENT_TYPE, ("Project",))
    names = user.extra.get(PARENT_NAME, ())
    if kind != ("Project",) or len(names) != 1 or not names[0]:
        raise NoProject(
            f'user "{user.username}" acts in no project: expected extra {PARENT_NAME} to name one'
        )
    return names[0]


class OfferReader:
    """Where offers come from."""

    def __init__(self, client_of: ClientOf, *, single: str = "") -> None:
        """``single`` names the one cluster there is; otherwise users say in which they act."""
        self._client_of = client_of
        self._single = single

    async def offer(self, user: UserInfo, namespace: str, needs: Needs) -> Offer:
        """What ``needs`` asks for; the rest of the offer stays unread. Raises
        :class:`OfferUnavailable` and :class:`NoProject`."""
        if not needs.cities and not needs.networks:
            return Offer(None)
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
        review = await project_client.create(
            core.SUBJECT_ACCESS_REVIEWS, _question(user, namespace, name)
        )
        if not review.view(core.SubjectAccessReview).status.allowed:
            denied.add(name)
    return frozenset(denied)


def _question(user: UserInfo, namespace: str, network: str) -> dict[str, object]:
    """May this user use the network? With all that is known of the user: an authorizer may
    find the project's rules only by the extras."""
    return {
        "spec": {
            "user": user.username,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
            "resourceAttributes": {
                "verb": "use",
                "group": networking.NETWORKS.group,
                "version": networking.NETWORKS.version,
                "resource": networking.NETWORKS.plural,
                "namespace": namespace,
                "name": network,
            },
        }
    }
