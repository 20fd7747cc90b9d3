"""Instance control: from a deployment and its Instances to a plan.

The plan lists what to create, wait for and delete; each policy is a module.
"""
