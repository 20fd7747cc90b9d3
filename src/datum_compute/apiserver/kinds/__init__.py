"""Which kinds a plane serves: the built-in ones, and those that definitions add.

A kind is a record with its names, verbs, columns and schema. Objects are not handled here.
"""
