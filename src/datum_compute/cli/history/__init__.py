"""A workload's revision history: what was changed, when, and by whom.

:mod:`.entries` says what an entry is and which of them are kept, :mod:`.protocol` what a
history can do, and :mod:`.config_map` keeps one in a ConfigMap beside the workload. Commands
know the protocol only, so that another place can take the ConfigMap's.

A change is written in two steps: the spec with a note of the change on the workload, in one
request, and then the entry. Whoever finds a spec that has no entry yet makes one: from the
note where it speaks of that very spec, and as an external change where it does not. So a
command that ends between the two steps loses nothing, and neither do two at once.
"""
