"""The engine on SQLite: all planes in memory to read, on one log file to keep.

:mod:`.store` (batches, delivery) is built over :mod:`.plane` and :mod:`.table` (one resource) in
memory, and over :mod:`.log_file` (the file, with :mod:`.checksums` and :mod:`.head_file`), which
:mod:`.transactions` writes and :mod:`.compaction` keeps small.
:mod:`.inspection` finds what is damaged, and :mod:`.rebuild` repairs, backs up and restores.
"""

from datum_compute.apiserver.storage.sqlite.inspection import check
from datum_compute.apiserver.storage.sqlite.rebuild import back_up, exists, repair, restore
from datum_compute.apiserver.storage.sqlite.store import LogStore as open_store

__all__ = ["back_up", "check", "exists", "open_store", "repair", "restore"]
