"""What commands that write do: plan, write, and wait, on the event loop.

A command's flags are in :mod:`datum_compute.cli.commands`, which must load in an instant
for help and completion; what needs a client and an event loop is here, and is imported
only when the command really runs.
"""
