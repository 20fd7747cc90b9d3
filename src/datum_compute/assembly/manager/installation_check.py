"""``compute-manager --check``: report what the planes of a manager lack, without changing them.

It looks with the flags, the configuration and the identity of the manager that would run, so what
it finds holds for that manager: whether each plane answers and is the one it should be, what it
defines and in which version, what the identity may do, how the hub carries status, and whether
the cities that projects are offered have a cell. What the identity may not read is said to be not
checked, never to be missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from datum_compute import __version__
from datum_compute.api import conditions, core, karmada, planes
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.assembly import rights
from datum_compute.assembly.manager import plane_check
from datum_compute.assembly.manager.groups import lease_namespace
from datum_compute.assembly.manager.plane_check import PlaneRole
from datum_compute.assembly.manager.plane_clients import PlaneClients, own_connection
from datum_compute.assembly.manager.plane_findings import (
    GrantedRights,
    PlaneFinding,
    PlaneFindings,
    PlaneUnderCheck,
    Verdict,
)
from datum_compute.assembly.manager.settings import NO_PROVIDER, ManagerSettings
from datum_compute.assembly.manager.webhook_certificate import (
    CONFIGURATION,
    WEBHOOK_CONFIGURATIONS,
)
from datum_compute.client import errors
from datum_compute.client.kubeconfig import Connection
from datum_compute.controllers.management.federation.interpreter import deployment_scripts
from datum_compute.env import Environment


async def check_installation(
    env: Environment, settings: ManagerSettings, clients: PlaneClients
) -> list[PlaneFinding]:
    """What was found, plane by plane. Raises ``KubeconfigError`` and ``SettingsError``."""
    return await _InstallationCheck(env, settings, clients).run()


def render(findings: Iterable[PlaneFinding], settings: ManagerSettings) -> str:
    lines = [f"compute-manager {__version__}, controllers: {settings.group}"]
    plane, missing = "", 0
    for each in findings:
        if each.plane != plane:
            plane = each.plane
            lines += ["", plane]
        lines.append(f"  {each.verdict:<12} {each.text}")
        if each.fix:
            lines.append(f"  {'':<12} -> {each.fix}")
        missing += each.verdict is Verdict.MISSING
    result = "Nothing is missing." if not missing else f"Missing: {missing}."
    return "\n".join([*lines, "", result, ""])


class _InstallationCheck:
    def __init__(self, env: Environment, settings: ManagerSettings, clients: PlaneClients) -> None:
        self._findings = PlaneFindings(networking=settings.networking)
        self._env = env
        self._settings = settings
        self._clients = clients
        self._cities: set[str] | None = None
        """Of the Clusters on the hub; None where they could not be read."""

    async def run(self) -> list[PlaneFinding]:
        settings = self._settings
        if settings.federation_kubeconfig:
            await self._check_hub()
        if settings.cell or settings.leader_elect or settings.discovery.mode == "single":
            await self._check_own()
        if settings.management and settings.discovery.mode == "milo":
            await self._check_projects()
        if settings.cell and settings.quota_kubeconfig:
            await self._check_claims()
        return self._findings.found

    async def _check_own(self) -> None:
        settings = self._settings
        connection = own_connection(self._env, settings)
        own = self._plane("own cluster", connection, self._own_needs(), self._clients.own_role())
        if not await self._findings.check_plane(own) or not settings.management:
            return
        if settings.cell or settings.discovery.mode == "single":
            await self._check_project_objects(own)

    def _own_needs(self) -> list[GrantedRights]:
        settings, needs = self._settings, []
        if settings.management and settings.cell:
            needs.append(_recorded(rights.SINGLE, "single"))
        elif settings.cell:
            needs.append(_recorded(rights.CELL, planes.CELL.name))
        elif settings.discovery.mode == "single":
            needs.append(_recorded(rights.MANAGEMENT, planes.PROJECT.name))
        if settings.webhooks is not None and settings.discovery.mode == "single":
            plane = "single" if settings.cell else planes.PROJECT.name
            needs.append(_recorded(rights.WEBHOOKS, plane))
        if settings.provider != NO_PROVIDER:
            needs.append(_recorded(rights.POD_PROVIDER, "pods"))
        if settings.leader_elect:
            needs.append(_recorded(rights.ELECTION, "host", lease_namespace(settings)))
        return needs

    async def _check_hub(self) -> None:
        settings = self._settings
        process = rights.MANAGEMENT if settings.management else rights.CELL
        hub = self._plane(
            f"hub ({settings.federation_source} {settings.federation_kubeconfig})",
            self._clients.hub_connection(),
            [_recorded(process, planes.HUB.name)],
            plane_check.HUB,
            user="" if settings.management else f"{rights.CELL}-{settings.discovery.cluster_name}",
        )
        if await self._findings.check_plane(hub) and settings.management:
            await self._check_interpreter(hub)
            await self._check_clusters(hub)

    async def _check_interpreter(self, hub: PlaneUnderCheck) -> None:
        found = await self._findings.list_objects(hub, karmada.INTERPRETER_CUSTOMIZATIONS)
        if found is None:
            return
        fix = "kubectl apply -k deploy/federation"
        scripts = deployment_scripts(found)
        if scripts is None:
            self._findings.missing(
                hub, "no interpreter of deployments: no status ever returns", fix
            )
            return
        if scripts.status_aggregation is None:
            self._findings.missing(
                hub, "the interpreter has no statusAggregation: no status ever returns", fix
            )
        if scripts.dependency_interpretation is None:
            self._findings.missing(
                hub,
                "the interpreter has no dependencyInterpretation: ConfigMaps and Secrets of a"
                " workload do not reach its cells",
                fix,
            )

    async def _check_clusters(self, hub: PlaneUnderCheck) -> None:
        found = await self._findings.list_objects(hub, karmada.CLUSTERS)
        if found is None:
            return
        if not found:
            self._findings.missing(
                hub, "no Cluster is joined: there is no cell", "join each cell to Karmada"
            )
        self._cities = set()
        for each in found:
            city = each.metadata.labels.get(compute.LABEL_TOPOLOGY_CITY_CODE, "")
            if not city:
                self._findings.missing(
                    hub,
                    f"Cluster {each.name} has no label {compute.LABEL_TOPOLOGY_CITY_CODE}:"
                    " no deployment reaches it",
                    f"kubectl label cluster {each.name} {compute.LABEL_TOPOLOGY_CITY_CODE}=CITY",
                )
            else:
                self._cities.add(city)
            status = each.view(karmada.Cluster).status
            ready = conditions.find(status.conditions, karmada.CONDITION_READY)
            if ready is None or ready.status != "True":
                message = ready.message if ready is not None else "it has not reported"
                self._findings.missing(hub, f"Cluster {each.name} is not ready: {message}")
                continue
            served = {
                (enabled.group_version, one.kind)
                for enabled in status.api_enablements
                for one in enabled.resources
            }
            kind = compute.WORKLOAD_DEPLOYMENTS
            if (kind.api_version, kind.kind) not in served:
                self._findings.missing(
                    hub,
                    f"Cluster {each.name} does not serve {kind.group_resource}: Karmada sends it"
                    " no deployment",
                    "in the cell: kubectl apply -k deploy/crds",
                )

    async def _check_projects(self) -> None:
        found = self._settings.discovery
        root = self._plane(
            f"root ({found.discovery_kubeconfig_path or 'own cluster'})",
            self._clients.connection(found.discovery_kubeconfig_path),
            [_recorded(rights.MANAGEMENT, planes.ROOT.name)],
        )
        projects = None
        if await self._findings.check_plane(root):
            projects = await self._findings.list_objects(root, resourcemanager.PROJECTS)
        if projects is None:
            return
        ready = [each.name for each in projects if _is_ready(each)]
        if not ready:
            self._findings.missing(root, f"none of {len(projects)} projects is Ready")
        path = found.project_kubeconfig_path or found.discovery_kubeconfig_path
        for name in ready:
            needs = [_recorded(rights.MANAGEMENT, planes.PROJECT.name)]
            if self._settings.webhooks is not None:
                needs.append(_recorded(rights.WEBHOOKS, planes.PROJECT.name))
            connection = self._clients.project_connection(name, path)
            project = self._plane(f"project {name}", connection, needs, plane_check.PROJECT)
            if await self._findings.check_plane(project):
                await self._check_project_objects(project)

    async def _check_project_objects(self, project: PlaneUnderCheck) -> None:
        """What users need besides: cities, and admission."""
        offered = await self._findings.list_objects(project, networking.LOCATION_BINDINGS)
        views = [each.view(networking.LocationBinding) for each in offered or ()]
        cities = {
            view.city_code
            for view in views
            if conditions.is_true(view.status.conditions, compute.CONDITION_AVAILABLE)
        }
        if offered is not None and not cities:
            self._findings.missing(
                project, "no LocationBinding is Available: no city can be deployed to"
            )
        if self._cities is not None:
            for city in sorted(cities - self._cities):
                self._findings.missing(
                    project,
                    f"city {city} is offered, and no Cluster of the hub has it in its label"
                    f" {compute.LABEL_TOPOLOGY_CITY_CODE}",
                )
        if self._settings.webhooks is not None:
            await self._check_webhooks(project)

    async def _check_webhooks(self, project: PlaneUnderCheck) -> None:
        for resource in WEBHOOK_CONFIGURATIONS:
            named = f"{resource.kind} {CONFIGURATION}"
            try:
                found = await project.client.get(resource, CONFIGURATION)
            except (errors.NotFound, errors.NotServed):
                plane = "single" if self._settings.cell else planes.PROJECT.name
                fix = f"kubectl apply -k deploy/base/{plane}"
                self._findings.missing(project, f"no {named}: Workloads are not reviewed", fix)
            except errors.ClientError:
                self._findings.unknown(project, f"{named}: this identity may not read it")
            else:
                called = msgspec.json.decode(found.extra.get("webhooks", b"[]"))
                asked = [each["clientConfig"] for each in called]
                if any("service" in each and not each.get("caBundle") for each in asked):
                    self._findings.missing(project, f"{named} has no caBundle: its calls fail")

    async def _check_claims(self) -> None:
        path = self._settings.quota_kubeconfig
        connection = self._clients.connection(path)
        user = f"{rights.CELL}-{self._settings.discovery.cluster_name}"
        server = self._plane(f"projects ({path})", connection, [], user=user)
        if not await self._findings.check_plane(server):
            return
        needs = [_recorded(rights.CELL, planes.PROJECT.name)]
        own = self._plane("own cluster", own_connection(self._env, self._settings), [])
        found = await self._findings.list_objects(own, core.NAMESPACES)
        labels = {
            each.metadata.labels.get(compute.LABEL_UPSTREAM_CLUSTER_NAME, "")
            for each in found or ()
        }
        named = sorted(filter(None, map(names.decode_project, labels)))
        if not named:
            text = "quota: no project has been deployed here yet"
            self._findings.unknown(server, text)
        for name in named:
            connection = self._clients.project_connection(name, path)
            await self._findings.check_plane(
                self._plane(f"project {name}", connection, needs, plane_check.CLAIMS)
            )

    def _plane(
        self,
        name: str,
        connection: Connection,
        needs: Sequence[GrantedRights],
        role: PlaneRole | None = None,
        *,
        user: str = "",
    ) -> PlaneUnderCheck:
        client = self._clients.reader(connection, name)
        return PlaneUnderCheck(name, client, needs, role, user)


def _recorded(process: str, plane: str, namespace: str = "") -> GrantedRights:
    return GrantedRights(
        rights.recorded()[process][plane], f"deploy/base/{plane}", namespace=namespace
    )


def _is_ready(project: Object) -> bool:
    return conditions.is_true(conditions.of_status(project.status), resourcemanager.CONDITION_READY)
