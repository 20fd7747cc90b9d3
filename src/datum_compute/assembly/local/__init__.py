"""The local platform: every plane, stand-in, controller and provider in one process.

:mod:`.state` is the directory it lives in, :mod:`.state_reader` what others read of it,
:mod:`.platform` what runs, :mod:`.bootstrap` the objects it starts with, :mod:`.process` how
it is started, found and stopped.
"""
