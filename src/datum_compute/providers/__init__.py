"""Runtime back-ends: what runs the Instances of a cell.

:mod:`.protocol` is the contract and :mod:`.errors` its ways to say no; :mod:`.controller` is
the frame all of them share; :mod:`.conformance` is the kit each of them passes. A back-end is
one sub-package and knows no other. Controllers may import the contract, never a back-end.
"""
