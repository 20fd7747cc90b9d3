"""The kit for tests, ours and those of provider authors; the product never imports it.

``loop`` and ``environment`` replace time, order and chance, ``server`` gives a real API
server in the same process, and ``expectations`` waits for a state of the world instead of a
span of time. For several processes ``network`` stands between them and their planes, with
``weather`` to say what it does to messages; ``processes`` die and start again; ``boot`` starts
every seed from the same copy; ``past`` shows a reconcile what was known earlier; and ``trace``
holds two runs of one seed to the same course.
"""
