"""Where objects are kept: the store, its log table and the SQLite file."""
