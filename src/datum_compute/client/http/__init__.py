"""The HTTP transport for any Kubernetes API server."""
