"""Which client manages which field of an object: ``metadata.managedFields``, and server-side apply.

A set of fields (``sets``) is the tree of its ``FieldsV1`` form: ``f:`` a field, ``k:`` an item of
a list by its keys, ``v:`` a member of a set, ``.`` the place itself. ``types`` says where lists and
maps are merged and where they are owned as one; ``values`` builds, compares, merges and prunes
values by that. ``entries`` are the records that are stored beside an object, and their form on the
wire. ``ownership`` is what a write does to them.
"""
