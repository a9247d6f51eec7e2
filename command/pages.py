"""Sessions in pages: one answer of the throttler, and so of the console, has a thousand at most."""

from collections.abc import Callable
from dataclasses import replace

from command.show import Listed
from throttler.service.control import MOST_SESSIONS
from tributary.api.documents import Session


def first(page: Callable[..., Listed[Session]], limit: int | None) -> Listed[Session]:
    """The first ``limit`` sessions, or those of one answer; ``page`` takes an ``offset``.

    Each is one look: a session that moves from page to page meanwhile is listed once, or not at all.
    """
    found = page()
    sessions = {each.token: each for each in found.documents}
    for offset in range(MOST_SESSIONS, min(limit or MOST_SESSIONS, found.total), MOST_SESSIONS):
        sessions |= {each.token: each for each in page(offset=offset).documents}
    return replace(found, documents=list(sessions.values()))
