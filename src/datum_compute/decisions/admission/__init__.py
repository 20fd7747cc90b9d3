"""Whether a Workload may be stored as it is written, and what is filled in first.

Pure, on plain JSON values: a fault is told with the path the user wrote, and a document of
the wrong shape is a fault like any other, never an exception. :mod:`.defaults` fills in,
:mod:`.workload` judges, with one module for each part of a Workload; what the project has on
offer is an argument. Looking it up, and speaking to an API server, belong to ``webhooks``.
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
