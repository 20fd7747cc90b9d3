"""What the server answers without an object: health, version, discovery, OpenAPI, reviews."""
