"""The engine on SQLite: all planes in memory to read, on one log file to keep.

:mod:`.store` (memory, batches, delivery) is built over :mod:`.table` (one resource in memory)
and :mod:`.log_file` (the file).
"""

from datum_compute.apiserver.storage.sqlite.store import LogStore as open_store

__all__ = ["open_store"]
