"""Objects as tables and as bytes."""
