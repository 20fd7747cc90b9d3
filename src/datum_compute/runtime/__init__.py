"""The controller runtime: many clusters, level-triggered, no kind known by name.

From cluster to reconcile: ``fleet`` engages clusters; ``cluster`` and ``cache/`` hold what is
known about them; ``watches/`` turn a change into requests; ``workqueue/`` and ``controller``
run them; ``manager`` and ``tasks`` own all of it. ``leadership``, ``health``, ``metrics/``,
``events`` and ``log_context`` are what operators see. No kind, label or plane of the product is
known here, and no way to find clusters: that is ``controllers`` and ``fleets``.

The idioms every controller uses, one home each:

=====================================  =======================================================
``object_reconcile.for_object``        a reconcile that is given the cluster and the object
``watches.predicates``                 ``metadata_or_spec_changed``, ``content_changed``,
                                       ``created``, ``deleted``, ``created_or_deleted``,
                                       ``changed(value)``, ``matches(test)``
``watches.mapping``                    ``itself``, ``controller_owner``, ``all_of``,
                                       ``all_in_fleet``, ``by_index``
``live_reads``                         ``find_live``, ``is_live`` (by uid), ``has_live``
``writes.create``                      ``create_owned`` (only under an owner that exists),
                                       ``create_or_wait``, ``create_if_absent``
``writes.ownership.ensure_owner``      adoption
``writes.patch``                       ``ensure_metadata``, ``release_finalizer``,
                                       ``write_status``, ``copy_status``, ``delete_if_present``
``writes.conditions``                  ``write_conditions``, ``status_with``,
                                       ``write_unreadable``
``cache.quarantine``                   ``views`` and ``readable``: lists without what cannot be
                                       read
``writes.spec_copies``                 ``SpecCopies.ensure``, ``UnkeptChanges``
``workqueue.rate_limiter.RateLimiter``  a minimum interval between two writes for one key
``workqueue.token_bucket``             ``TokenBucket``, ``SharedTokenBuckets``
``tasks.gather_all``                   calls side by side, all of which end
=====================================  =======================================================
"""
