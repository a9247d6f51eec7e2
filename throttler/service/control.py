"""The daemon's control socket, which also excludes a second daemon in a network namespace."""

from tributary.daemons.control import Control

CONTROL = Control("throttler", "throttler", longest=1 << 20, timeout=60.0)
"""A policy that is tried comes whole. A reload with 100,000 subflows takes some seconds."""

MOST_SESSIONS = 1000
"""Sessions in one answer."""
