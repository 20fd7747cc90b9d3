"""The local platform: every plane, stand-in, controller and provider in one process.

:mod:`.state` is its directory and :mod:`.state_reader` the part of it that the CLI reads;
:mod:`.platform` builds what runs, :mod:`.bootstrap` creates its first objects, :mod:`.process`
starts, finds and stops it. :mod:`.standins` lists the stand-ins and :mod:`.plane_fleets` gives
each process its planes. :mod:`.admission`, :mod:`.verbs` and
:mod:`.cell_providers` extend its API server; :mod:`.partitions` disconnects cells.
"""
