"""Conditions and counters, from Instances up to the Workload."""
