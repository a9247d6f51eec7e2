"""The control socket of ``router status``. It also prevents a second daemon in a network namespace."""

from tributary.daemons.control import Control

CONTROL = Control("router", "router daemon", longest=4096, timeout=10.0)
