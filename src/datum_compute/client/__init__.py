"""The only code that speaks to an API server.

:mod:`.protocol` defines a client; :mod:`.client` implements it over any :mod:`.transport`:
HTTP to any Kubernetes API server, or in process to the embedded one. Callers see no
difference. Everything crosses as bytes, and every call carries an identity.
"""
