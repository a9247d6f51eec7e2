"""Multipath TCP on this host as its kernel tells of it: sessions, subflows, and how to ask for them."""
