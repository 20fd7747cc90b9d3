"""Admission webhooks for Workloads: AdmissionReview v1 in, its response out.

:mod:`.review` is the wire form, :mod:`.projects` reads the cities and networks of a project,
:mod:`.workload` decides a review, and :mod:`.app` serves it over HTTP. The rules are
:mod:`datum_compute.decisions.admission`. The assembly passes a function from a project's name
to a client of its plane.
"""
