"""Measures the product against its budgets: ``python -m bench``.

:mod:`.budgets` has the goals, :mod:`.report` prints the results. Each other module measures
one thing: :mod:`.apiserver` drives a server in another process with :mod:`.load`,
:mod:`.thousand` fills a local platform, :mod:`.startup` starts one, :mod:`.profiler` shows
where the time of a run goes. Nothing here is a test: a missed floor is shown, never raised.
"""
