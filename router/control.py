"""By which ``router status`` asks the daemon, and which keeps a second daemon from a network namespace."""

from tributary.daemons.control import Control

CONTROL = Control("router", "router daemon", longest=4096, timeout=10.0)
