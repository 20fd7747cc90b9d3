"""GrantCreationPolicies: every project gets the grant that a policy of the root plane makes.

For each project a policy's constraints are met by, the grant of its template is made in the
plane of the project it names, and follows the template later. A project that no longer meets
them loses it. What a policy made carries its name in a label; nothing else is touched, and
what it made stays when the policy goes. A policy that cannot be carried out says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from datum_compute.api import conditions
from datum_compute.api.conditions import FALSE, TRUE
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.client import errors
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, after
from datum_compute.runtime.watches.mapping import itself
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.patch import Values
from datum_compute.standins.milo_quota.expressions import ExpressionError, evaluate, holds, render

LABEL_POLICY = "quota.miloapis.com/policy"
PLANE_SECONDS = 1.0
"""Until the plane of a project that is not engaged yet is looked for again."""

_PROJECT = (resourcemanager.PROJECTS.group, resourcemanager.PROJECTS.kind)


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant as a policy wants it for one project."""

    project: str
    wanted: bool
    body: Values


def policy_controller(projects: Fleet, root: Fleet, env: Environment) -> Controller:
    reconciler = _Policies(projects, root, env)
    return Controller(
        "quota-grant-policy",
        root,
        reconciler.reconcile,
        watches=[
            Watch(root, quota.GRANT_CREATION_POLICIES, itself),
            Watch(root, resourcemanager.PROJECTS, reconciler.all_policies),
        ],
        reads=[Read(projects, quota.RESOURCE_GRANTS, required=False)],
    )


def decide_grant(policy: quota.GrantCreationPolicy, project: Object) -> Grant:
    """The grant of a policy for a project. Raises :class:`ExpressionFault`."""
    trigger = msgspec.json.decode(project.to_wire())
    target = policy.spec.target
    name = policy.metadata.name
    plane = ""
    if target.parent_context is not None:
        plane = evaluate(target.parent_context.name_expression, trigger)
    template = target.resource_grant_template
    metadata = template.metadata
    body: Values = {
        "apiVersion": quota.RESOURCE_GRANTS.api_version,
        "kind": quota.RESOURCE_GRANTS.kind,
        "metadata": {
            "name": render(metadata.name, trigger)
            or f"{render(metadata.generate_name, trigger) or f'{name}-'}{project.name}",
            "namespace": render(metadata.namespace, trigger) or quota.NAMESPACE_MILO_SYSTEM,
            "labels": {**metadata.labels, LABEL_POLICY: name},
            "annotations": _rendered(metadata.annotations, trigger),
        },
        "spec": _rendered(msgspec.to_builtins(template.spec), trigger),
    }
    met = [holds(one.expression, trigger) for one in policy.spec.trigger.constraints]
    return Grant(plane, all(met), body)


def decide_fault(policy: quota.GrantCreationPolicy) -> str:
    """Why a policy cannot be carried out here at all, or empty."""
    resource = policy.spec.trigger.resource
    if (resource.api_version.partition("/")[0], resource.kind) != _PROJECT:
        return f"spec.trigger.resource: {resource.api_version} {resource.kind}: only Projects are"
    context = policy.spec.target.parent_context
    if context is None or (context.api_group, context.kind) != _PROJECT:
        return "spec.target.parentContext: must name a Project, in whose plane the grant is made"
    return ""


def _rendered(value: Any, trigger: Mapping[str, Any]) -> Any:
    """A part of a template, with the holes in its texts filled in and empty texts left out."""
    match value:
        case str():
            return render(value, trigger)
        case dict():
            return {key: _rendered(each, trigger) for key, each in value.items() if each != ""}
        case list() | tuple():
            return [_rendered(each, trigger) for each in value]
        case _:
            return value


class _Policies:
    def __init__(self, projects: Fleet, root: Fleet, env: Environment) -> None:
        self._projects = projects
        self._root = root
        self._env = env

    def all_policies(self, cluster: str, _: Object) -> Iterable[Request]:
        root = self._root.get(cluster)
        for policy in root.cache(quota.GRANT_CREATION_POLICIES).list() if root else ():
            yield Request(cluster, "", policy.name)

    async def reconcile(self, request: Request) -> Result:
        root = self._root.get(request.cluster)
        if root is None:
            return DONE
        policy = root.cache(quota.GRANT_CREATION_POLICIES).get(request.name)
        if policy is None or policy.metadata.deleting:
            return DONE
        view = policy.view(quota.GrantCreationPolicy)
        if view.spec.disabled:
            await self._report(
                root, policy, FALSE, quota.REASON_POLICY_DISABLED, "The policy is off"
            )
            return DONE
        fault = decide_fault(view)
        grants: list[Grant] = []
        try:
            if not fault:
                found = root.cache(resourcemanager.PROJECTS).list()
                grants = [decide_grant(view, one) for one in found if not one.metadata.deleting]
        except ExpressionError as error:
            fault = str(error)
        if fault:
            await self._report(root, policy, FALSE, quota.REASON_VALIDATION_FAILED, fault)
            return DONE
        await self._report(root, policy, TRUE, quota.REASON_POLICY_READY, "Grants are made")
        missing = [grant for grant in grants if not await self._ensure(grant)]
        return after(PLANE_SECONDS) if missing else DONE

    async def _ensure(self, grant: Grant) -> bool:
        """Make the grant what it should be; False while its plane is not there."""
        project = self._projects.get(grant.project)
        if project is None or not project.cache(quota.RESOURCE_GRANTS).synced:
            return False
        metadata, spec = grant.body["metadata"], grant.body["spec"]
        name, namespace = metadata["name"], metadata["namespace"]
        current = project.cache(quota.RESOURCE_GRANTS).get(name, namespace)
        if current is None:
            if grant.wanted:
                try:
                    await project.client.create(quota.RESOURCE_GRANTS, grant.body, namespace)
                except errors.AlreadyExists:
                    pass
            return True
        if current.metadata.labels.get(LABEL_POLICY) != metadata["labels"][LABEL_POLICY]:
            return True  # somebody else's
        if not grant.wanted:
            await patch.delete_if_present(project.client, quota.RESOURCE_GRANTS, current)
            return True
        await patch.ensure_metadata(
            project.client,
            quota.RESOURCE_GRANTS,
            current,
            labels=metadata["labels"],
            annotations=metadata["annotations"],
            spec=patch.difference(patch.values(current.spec), spec),
        )
        return True

    async def _report(
        self, root: Cluster, policy: Object, ready: str, reason: str, message: str
    ) -> None:
        current = policy.view(quota.GrantCreationPolicy).status.conditions
        found = ready == TRUE
        for kind, status, why, text in (
            (quota.CONDITION_READY, ready, reason, message),
            (
                quota.CONDITION_PARENT_CONTEXT_READY,
                TRUE if found else FALSE,
                quota.REASON_PARENT_CONTEXT_READY if found else quota.REASON_PARENT_CONTEXT_FAILED,
                "The planes of the projects are known" if found else message,
            ),
        ):
            current = conditions.with_condition(
                current,
                kind,
                status,
                why,
                text,
                now=self._env.now(),
                observed_generation=policy.metadata.generation,
            )
        status_wanted = {
            **patch.values(policy.status),
            "conditions": conditions.to_wire(current),
            "observedGeneration": policy.metadata.generation,
        }
        await patch.write_status(root.client, quota.GRANT_CREATION_POLICIES, policy, status_wanted)
