"""What makes short commands start quickly."""
