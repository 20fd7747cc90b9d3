"""``config`` and ``secrets``: ConfigMaps and Secrets of the project, one implementation with two
faces. :mod:`.config` and :mod:`.secrets` are the commands."""
