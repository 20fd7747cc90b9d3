"""Rollouts over cities: which template each deployment of a workload may have, and when.

:mod:`.policy` reads the annotation that asks for waves, :mod:`.state` what is recorded on each
deployment, :mod:`.plan` decides and :mod:`.progress` reports.
"""
