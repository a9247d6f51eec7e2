"""Sessions that come in pages."""

from command import lists, mapping
from command.show import Listed
from tests.unit.throttler.answer import answer
from tributary.api.documents import Session
from tributary.api.places import MOST_SESSIONS


def test_a_session_that_moves_to_the_next_page_meanwhile_is_listed_once() -> None:
    (one,) = mapping.sessions(answer())
    sessions = [one.model_copy(update={"token": f"{number:08x}"}) for number in range(2_500)]

    def page(offset: int = 0) -> Listed[Session]:
        """Before each look a new session comes first."""
        sessions.insert(0, one.model_copy(update={"token": f"new-{offset}"}))
        return Listed(sessions[offset : offset + MOST_SESSIONS], 1.0, len(sessions))

    tokens = [each.token for each in lists.first(page, 3000).documents]
    assert tokens[0] == "new-0" and tokens[1:] == [f"{number:08x}" for number in range(2_500)]
