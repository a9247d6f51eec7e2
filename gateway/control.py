"""The socket at which the gateway's service answers, also to the console, which is not root."""

from tributary.daemons.control import Control

CONTROL = Control("gateway", "gateway's service", longest=1 << 14, timeout=60.0)
"""Who enrols waits for tools, of which each has its time-out."""
UNPRIVILEGED = ("status", "routers")
STEERING = ("enrol", "revoke")
