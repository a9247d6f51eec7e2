"""Sessions in pages: one answer has a thousand at most."""

from collections.abc import Callable
from dataclasses import replace

from command.show import Listed
from tributary.api.documents import Session

MOST = 1000
"""Sessions in one answer of the throttler (throttler/service/query.py), and so of the console."""


def first(page: Callable[..., Listed[Session]], limit: int | None) -> Listed[Session]:
    """The first ``limit`` sessions, or those of one answer; ``page`` takes an ``offset``.

    Each is one look: a session that moves from page to page meanwhile is listed once, or not at all.
    """
    found = page()
    sessions = {each.token: each for each in found.documents}
    for offset in range(MOST, min(limit or MOST, found.total), MOST):
        sessions |= {each.token: each for each in page(offset=offset).documents}
    return replace(found, documents=list(sessions.values()))
