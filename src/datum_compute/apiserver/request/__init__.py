"""What is in a request: its path, user, body and options, and whether it may be carried out.

Everything here is about one request and stores nothing.
"""
