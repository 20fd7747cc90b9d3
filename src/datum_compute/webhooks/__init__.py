"""Admission of Workloads over the wire. It holds nothing: no admission runs."""
