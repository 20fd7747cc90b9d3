"""Controllers of one cell: they manage what runs there, even while hub or projects are unreachable.

``workload_deployment`` keeps a deployment at the desired number of Instances of the newest
template, and requests their networks; it holds rolls while hub or project are unreachable
(:mod:`.contact`). ``instance`` claims quota for one Instance, decides its Ready and writes it
back to the hub. Both remove scheduling gates (:mod:`.gates`).
"""
