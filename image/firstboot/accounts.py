"""The text of /etc/shadow, with other passwords (shadow(5)). Pure."""

from tributary.settings.errors import CommandError, Exit

_LOCKED = "!"


def with_password(shadow: str, user: str, hashed: str | None) -> str:
    """``shadow`` with ``hashed`` for ``user``; None locks, and leaves what is locked already.

    Raises CommandError (69) if there is no such user.
    """
    lines = [line.split(":") for line in shadow.splitlines()]
    own = next((fields for fields in lines if fields[0] == user and len(fields) > 1), None)
    if own is None:
        raise CommandError(Exit.UNAVAILABLE, f"/etc/shadow has no user {user}: the image has to bring one")
    if hashed is not None:
        own[1] = hashed
    elif not own[1].startswith(("!", "*")):
        own[1] = _LOCKED
    return "".join(":".join(fields) + "\n" for fields in lines)
