"""By which ``cpe status`` asks the daemon, and which keeps a second daemon from a network namespace."""

from tributary.daemons.control import Control

CONTROL = Control("cpe", "cpe daemon", longest=4096, timeout=10.0)
