"""The only code that speaks to an API server.

:mod:`.protocol` says what a client can do; :mod:`.client` does it over any
:mod:`.transport`: HTTP to any Kubernetes API server, or in process to the embedded one.
Callers cannot tell which. Everything crosses as bytes, and every call carries an identity.
"""
