"""Queues that keep a link's delay low, and rates that follow what the link carries."""
