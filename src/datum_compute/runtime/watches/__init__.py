"""From watch events to requests: sources, predicates, mapping and intake."""
