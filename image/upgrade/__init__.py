"""Upgrades of a running image: another system into the slot that does not run, with a way back."""
