"""Before a verb runs: routing, authentication, authorization, admission and selection."""
