"""Validation of names that users type, before a server sees them."""

from __future__ import annotations

import argparse
import re

from datum_compute.api.name_patterns import DNS_SUBDOMAIN, LABEL_LIMIT, SUBDOMAIN_LIMIT

NEW_WORKLOAD_LIMIT = LABEL_LIMIT
"""Instances carry their workload's name as a label, and a label's value cannot be longer."""

NAME_RULE = 'use lower-case letters, digits and "-", beginning and ending with a letter or a digit'

_PROJECT = r"[a-z]([-a-z0-9]{0,28}[a-z0-9])?"


def is_name(text: str) -> bool:
    return len(text) <= SUBDOMAIN_LIMIT and re.fullmatch(DNS_SUBDOMAIN, text) is not None


def is_project(text: str) -> bool:
    return re.fullmatch(_PROJECT, text) is not None


def workload_name(text: str) -> str:
    """For an argument parser: the name, or why it cannot be one."""
    if not is_name(text):
        raise argparse.ArgumentTypeError(f'"{text}" is not a valid name: {NAME_RULE}')
    return text
