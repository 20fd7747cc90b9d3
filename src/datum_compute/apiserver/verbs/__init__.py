"""The verbs on objects, and the subresources ``scale`` and ``log``; one module each."""
