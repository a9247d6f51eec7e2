"""How the interfaces of a home router's tunnels are called: by who makes them, and by who has rules for them. Pure."""

PREFIX = "tb"
"""What their names begin with, if nothing else is said."""


def name(prefix: str, place: int) -> str:
    """That of the tunnel at ``place`` (addresses.py)."""
    return f"{prefix}{place}"
