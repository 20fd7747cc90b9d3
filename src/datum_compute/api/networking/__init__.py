"""The network-services API, one package per version."""
