"""Where objects are kept.

:mod:`.protocol` is what the rest of the server may use; the engine behind it is
:mod:`.store` (memory, batches, delivery) over :mod:`.table` (one resource in memory) and
:mod:`.sqlite` (one log file). Nothing here knows kinds, requests or HTTP.
"""
