"""Reads the overlay for ``tributary`` and the console of this machine."""
