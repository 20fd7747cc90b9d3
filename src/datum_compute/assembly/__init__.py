"""The composition root: the only place that knows everything.

``local`` is the whole platform in one process, ``manager`` the program ``compute-manager``;
:mod:`.process_groups` holds the controllers both run, :mod:`.event_loop` how both run and stop,
:mod:`.rights` the rights of every process, :mod:`.milo_objects` what compute registers with Milo,
and :mod:`.logs` the form of log lines. Settings are read here and passed down as values.
"""
