"""The informer cache: reflector, indexes and what a controller may read from memory."""
