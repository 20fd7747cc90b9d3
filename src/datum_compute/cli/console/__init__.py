"""The console: a page in the browser that shows a project live, in the words of the commands.

A user asks for a link with the command ``console`` (:mod:`.sessions`). The page exchanges it for
a session; :mod:`.server` then reads the project through the ordinary API, as that user
(:mod:`.project`). :mod:`.models` computes what the page shows with the functions of the commands,
:mod:`.board` keeps it and streams what changes, and :mod:`.changes` carries out what the user asks
for, after it has shown the plan.
"""
