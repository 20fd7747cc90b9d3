"""Measures the product against its budgets: ``python -m bench``.

:mod:`.budgets` says what is wanted, :mod:`.report` what came out. Each other module measures
one thing: :mod:`.apiserver` drives a server in another process with :mod:`.load`,
:mod:`.thousand` fills a local platform, :mod:`.startup` starts one, :mod:`.profiling` tells
where the time of a run goes. Nothing here is a test: a missed floor is shown, never raised.
"""
