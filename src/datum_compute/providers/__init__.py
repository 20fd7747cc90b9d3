"""Providers: what runs the Instances of a cell.

:mod:`.protocol` is the contract and :mod:`.errors` its errors; :mod:`.frame` is the controller
all of them share; :mod:`.conformance` is the kit each of them passes; :mod:`.registry` lists
them. A provider is one sub-package, which only the registry imports.
"""
