"""``open`` and ``console``: what a person looks at in a browser."""
