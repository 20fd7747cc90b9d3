"""Wording: states, reasons, errors and suggestions as text for users."""
