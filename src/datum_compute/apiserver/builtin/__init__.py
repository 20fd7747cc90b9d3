"""Built-in kinds and endpoints: discovery, OpenAPI, reviews, health and version."""
