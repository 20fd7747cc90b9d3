"""The HTTP router of the local platform.

:mod:`.controller` follows the Workloads and Instances of every project, keeps the route of each
Workload in a :class:`~.controller.RouteTable` and publishes its URL. :mod:`.server` accepts
connections and hands each request to an Instance of its route (:mod:`.exchange`), over connections
of :mod:`.upstreams`. :mod:`.messages` reads and writes HTTP/1.1. The rules are in
:mod:`datum_compute.decisions.routing`.
"""

from datum_compute.router.controller import RouteTable, router_controller
from datum_compute.router.server import Router

__all__ = ["RouteTable", "Router", "router_controller"]
