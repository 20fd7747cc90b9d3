"""Objects in the form the client accepts: JSON, YAML, tables, metadata alone."""
