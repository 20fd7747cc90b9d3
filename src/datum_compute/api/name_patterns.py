"""The patterns of Kubernetes names, as regular expressions without anchors."""

from __future__ import annotations

LABEL_LIMIT = 63
"""Characters of a DNS label, of a label's value and of a key without its prefix."""
SUBDOMAIN_LIMIT = 253
PORT_NAME_LIMIT = 15

DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
QUALIFIED_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
"""A label's key without its prefix; also a label's value, which may be empty besides."""
PORT_NAME = r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*"
