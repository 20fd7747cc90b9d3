"""Admission of a Workload: defaults and validation.

Pure, on plain JSON values: an error carries the path as the user wrote it, and a document of
the wrong shape is an error like any other, never an exception. :mod:`.defaults` fills in,
:mod:`.workload` validates, with one module for each part of a Workload; what the project
offers is an argument. Reading that, and talking to an API server, belong to ``webhooks``.
"""

from datum_compute.decisions.admission.defaults import Default, decide_defaults, with_defaults
from datum_compute.decisions.admission.offer import Needs, Offer, decide_needs
from datum_compute.decisions.admission.workload import AdmissionDecision, decide_admission

__all__ = [
    "AdmissionDecision",
    "Default",
    "Needs",
    "Offer",
    "decide_admission",
    "decide_defaults",
    "decide_needs",
    "with_defaults",
]
