"""One module per verb: ``configure(parser)`` and ``run(context) -> exit code``."""
