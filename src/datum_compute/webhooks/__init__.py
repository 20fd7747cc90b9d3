"""Admission of Workloads over the wire: AdmissionReview v1 in, a verdict out.

:mod:`.review` is the wire form, :mod:`.projects` looks up what a project has to offer,
:mod:`.workload` answers a review, and :mod:`.app` is that as an ASGI application. The rules
themselves are ``decisions.admission``. Nothing here knows where projects come from: the
assembly gives a function from a project's name to a client of its plane.
"""
