"""Rollouts: their state, waiting for them, and the progress that is displayed meanwhile."""
