"""The daemon's control socket, which also excludes a second daemon in a network namespace."""

from tributary.daemons.control import Control

CONTROL = Control("router", "router daemon", longest=1 << 20, timeout=10.0)
