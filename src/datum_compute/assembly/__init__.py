"""The composition root: the only place that knows everything.

Each module here reads from top to bottom as the diagram of one process. Settings are read
once, here, and handed down as values.
"""
