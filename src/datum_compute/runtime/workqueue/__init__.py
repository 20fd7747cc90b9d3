"""The queue of requests, with its limits on starts and on rates."""
