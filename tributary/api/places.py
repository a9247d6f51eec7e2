"""Where the programs are asked, who may ask them for what, and where some put what they found."""

from pathlib import Path

from tributary.daemons.control import Control

THROTTLER = Control(
    "throttler",
    "throttler",
    longest=1 << 20,
    timeout=60.0,
    unprivileged=("status", "sessions", "explain"),
    steering=("set", "unset", "preview"),
    privileged=("reload", "try"),
)
"""A policy that is tried comes whole. A reload with 100,000 subflows takes some seconds."""
MOST_SESSIONS = 1000
"""Sessions in one answer of the throttler's, or of the console's."""
ROUTER = Control(
    "router",
    "router daemon",
    longest=1 << 20,
    timeout=10.0,
    unprivileged=("status", "lan"),
    steering=("set-link", "set-bypass"),
    privileged=("set-usage", "reload", "try"),
)
GATEWAY = Control(
    "gateway",
    "gateway's service",
    longest=1 << 14,
    timeout=60.0,
    unprivileged=("status", "routers"),
    steering=("enrol", "revoke"),
)
"""Who enrols waits for tools, of which each has its time-out."""

CONSOLE_PORT = 8480
"""Where a console listens unless its settings say otherwise."""
CONSOLE = Control(
    "control",
    "console",
    longest=4096,
    timeout=10.0,
    own_folder=Path("/run/tributary-console"),
    unprivileged=("status",),
    privileged=("login", "password", "logout", "token", "remove-token", "tokens"),
)

EXAMINED = Path("/run/tributary-doctor/findings.json")
"""Where tributary-doctor.timer has the doctor write an Examination."""
FIXES = Path("/run/tributary/doctor-fix.sock")
"""Where the doctor fixes what the console asks for, if systemd listens there (tributary-doctor-fix.socket)."""

OVERLAY = Control("overlay", "overlay's reader", longest=1024, timeout=3.0, unprivileged=("status",))
"""Where ``overlay serve`` and tributary-overlay.service answer."""
