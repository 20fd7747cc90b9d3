"""Waiting for a rollout, and the progress it shows meanwhile."""
