"""The embedded platform: the API server and stand-ins for the systems around it.

Each package here replaces one real system behind that system's own API, keeps its
inconvenient semantics too, and can be swapped for the real thing. They do not know each
other; ``assembly`` brings them together.
"""
