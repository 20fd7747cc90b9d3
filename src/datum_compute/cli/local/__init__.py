"""What ``local`` does to the platform on this machine: starting, stopping, and reaching it."""
