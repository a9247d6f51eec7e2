"""By which other commands ask the daemon, and which keeps a second daemon from a network namespace."""

from tributary.daemons.control import Control

CONTROL = Control("throttler", "throttler", longest=65_536, timeout=60.0)
"""A reload with 100,000 subflows takes some seconds."""
