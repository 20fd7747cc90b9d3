"""The stand-in for Milo's service entitlements: a project requests a service and is granted or
denied it.

A ServiceEntitlement is in the project's plane; the Service it names is in the root plane. An
entitlement for a service that is not published waits until it is. Otherwise it is approved after a
while, or by a person who writes ``status.phase``; a decision stays even if the service is no longer
published.
"""

from __future__ import annotations

from datum_compute.standins.milo_entitlements.controller import Approval, entitlement_controllers

__all__ = ["Approval", "entitlement_controllers"]
