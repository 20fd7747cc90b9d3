"""Ways to find clusters; each module is one.

A fleet here knows where the names of clusters come from (a setting, the projects of a
platform, the namespaces of a cell) and is given a function that turns a name into a client.
What a controller does on those clusters is not known here, and controllers do not import this
package: they are given a :class:`~datum_compute.runtime.fleet.Fleet`.
"""
