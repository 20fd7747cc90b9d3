"""One module per verb: ``configure(parser)`` and ``run(context) -> exit code``.

A large verb is a folder: ``command.py`` holds both and loads for help; the rest loads when it
runs.
"""
