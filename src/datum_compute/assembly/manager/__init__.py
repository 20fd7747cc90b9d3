"""``compute-manager``: the controllers as a process beside real API servers.

:mod:`.settings` is what it is told, :mod:`.groups` what runs, :mod:`.main` the program.
"""
