"""GrantCreationPolicies: every project gets the grant that a policy of the root plane creates.

For each project that meets a policy's constraints, the grant of the policy's template is created in
the plane of the project that the policy names, and kept equal to the template. A project that no
longer meets them loses it. Grants of a policy carry its name in a label; no others are changed.
They stay when the policy is deleted. An invalid policy reports why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from datum_compute.api.conditions import FALSE, TRUE
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.object_reconcile import for_object
from datum_compute.runtime.result import DONE, Result, after
from datum_compute.runtime.watches.mapping import all_of
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.conditions import ConditionChange, write_conditions
from datum_compute.runtime.writes.create import create_if_absent
from datum_compute.runtime.writes.patch import Values
from datum_compute.standins.milo_quota.expressions import ExpressionError, evaluate, holds, render

LABEL_POLICY = "quota.miloapis.com/policy"
PLANE_SECONDS = 1.0
"""Until a project that is not engaged yet is tried again."""

_PROJECT = (resourcemanager.PROJECTS.group, resourcemanager.PROJECTS.kind)


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant as a policy wants it for one project."""

    project: str
    wanted: bool
    body: Values


def policy_controller(projects: Fleet, root: Fleet, env: Environment) -> Controller:
    policies = quota.GRANT_CREATION_POLICIES
    return Controller(
        "quota-grant-policy",
        root,
        for_object(root, policies, _Policies(projects, env).reconcile),
        watches=[
            Watch.each(root, policies),
            Watch(root, resourcemanager.PROJECTS, all_of(root, policies)),
        ],
        reads=[Read(projects, quota.RESOURCE_GRANTS, required=False)],
    )


def decide_grant(policy: quota.GrantCreationPolicy, project: Object) -> Grant:
    """The grant of a policy for a project. Raises :class:`ExpressionError`."""
    trigger = msgspec.json.decode(project.to_wire())
    target = policy.spec.target
    name = policy.metadata.name
    plane = ""
    if target.parent_context is not None:
        plane = evaluate(target.parent_context.name_expression, trigger)
    template = target.resource_grant_template
    metadata = template.metadata
    body: Values = {
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
    """Why a policy is invalid here, or empty."""
    resource = policy.spec.trigger.resource
    if (resource.api_version.partition("/")[0], resource.kind) != _PROJECT:
        return f"spec.trigger.resource: {resource.api_version} {resource.kind}: expected Project"
    context = policy.spec.target.parent_context
    if context is None or (context.api_group, context.kind) != _PROJECT:
        return "spec.target.parentContext: must name a Project, in whose plane the grant is created"
    return ""


def _rendered(value: Any, trigger: Mapping[str, Any]) -> Any:
    """A part of a template, with its expressions evaluated and empty strings left out."""
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
    def __init__(self, projects: Fleet, env: Environment) -> None:
        self._projects = projects
        self._env = env

    async def reconcile(self, root: Cluster, policy: Object) -> Result:
        view = policy.view(quota.GrantCreationPolicy)
        if view.spec.disabled:
            await self._report(
                root, policy, FALSE, quota.REASON_POLICY_DISABLED, "The policy is disabled"
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
        await self._report(root, policy, TRUE, quota.REASON_POLICY_READY, "Grants are created")
        missing = [grant for grant in grants if not await self._ensure(grant)]
        return after(PLANE_SECONDS) if missing else DONE

    async def _ensure(self, grant: Grant) -> bool:
        """Create, update or delete the grant; False while its project is not engaged."""
        project = self._projects.get(grant.project)
        if project is None or not project.cache(quota.RESOURCE_GRANTS).synced:
            return False
        metadata, spec = grant.body["metadata"], grant.body["spec"]
        name, namespace = metadata["name"], metadata["namespace"]
        current = project.cache(quota.RESOURCE_GRANTS).get(name, namespace)
        if current is None:
            if grant.wanted:
                await create_if_absent(project.client, quota.RESOURCE_GRANTS, grant.body, namespace)
            return True
        if current.metadata.labels.get(LABEL_POLICY) != metadata["labels"][LABEL_POLICY]:
            return True  # belongs to no policy, or another
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
        found = ready == TRUE
        await write_conditions(
            root.client,
            quota.GRANT_CREATION_POLICIES,
            policy,
            ConditionChange(quota.CONDITION_READY, ready, reason, message),
            ConditionChange(
                quota.CONDITION_PARENT_CONTEXT_READY,
                TRUE if found else FALSE,
                quota.REASON_PARENT_CONTEXT_READY if found else quota.REASON_PARENT_CONTEXT_FAILED,
                "The planes of the projects are known" if found else message,
            ),
            now=self._env.now(),
            fields={"observedGeneration": policy.metadata.generation},
        )
