"""Messages between front, switch and back ends that come twice or not at all: no client gets a wrong byte."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.netns.handoff_proxy import KINDS, Treat, between
from tests.netns.handoff_world import SIZE, HandOff, answer, needs_tools, pattern, request
from tests.netns.world import eventually

pytestmark = needs_tools


@contextmanager
def front_behind(handoff: HandOff, treat: Treat) -> Iterator[None]:
    """The front started anew, all of whose messages are treated so."""
    handoff.kill("front")
    with between(handoff.network, treat) as places:
        handoff.processes["front"] = handoff.network.start_front(instead=places)
        eventually(lambda: handoff.is_handed("a/1") and handoff.is_handed("b/1"))
        try:
            yield
        finally:
            handoff.kill("front")


def twice(message: bytes) -> list[bytes]:
    """Each comes again at once."""
    return [message] * (2 if message[5] in KINDS.values() else 1)


class Late:
    """Each return comes again behind the next one of its connection, and what was said to it before the next word."""

    def __init__(self) -> None:
        self.last: dict[bytes, bytes] = {}

    def __call__(self, message: bytes) -> list[bytes]:
        """What is passed on in its place."""
        kind, number = message[5], message[6:14]
        if kind == KINDS["returned"]:
            return [message, *self._again(b"returned" + number, message)]
        if kind in (KINDS["keep"], KINDS["released"]):
            return [*self._again(b"said" + number, message), message]
        return [message]

    def _again(self, key: bytes, message: bytes) -> list[bytes]:
        last = self.last.get(key)
        self.last[key] = message
        return [last] if last else []


@pytest.mark.parametrize("treat", [twice, Late()], ids=["at once", "late"])
def test_messages_that_come_twice_change_nothing(treat: Treat, handoff: HandOff, tmp_path: Path) -> None:
    is_on = False
    with front_behind(handoff, lambda message: treat(message) if is_on else [message]):
        # Of one connection, whose numbers are those of one of the front's threads.
        is_on = True
        before = handoff.passed_front()
        names = "aabbaaab" * 3
        got = handoff.fetch([f"{name}/{SIZE}" for name in names], tmp_path)
        assert got == [pattern(name, SIZE) for name in names]
        assert handoff.passed_front() - before < len(names) * SIZE / 2, "most of them were handed over"
        eventually(lambda: not handoff.at_back_ends())


SEEN: dict[str, type[Exception] | None] = dict.fromkeys(KINDS) | {
    # Somebody else may have the connection.
    "hand": ConnectionResetError,
    "taken": ConnectionResetError,
    # Both ends live, and wait for each other.
    "returned": TimeoutError,
    "keep": TimeoutError,
}
"""What a client sees when one message of a kind is lost."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_that_is_lost_costs_one_connection_at_most_and_no_byte_is_wrong(kind: str, handoff: HandOff) -> None:
    is_on, lost = False, False

    def treat(message: bytes) -> list[bytes]:
        nonlocal lost
        if not is_on or lost or message[5] != KINDS[kind]:
            return [message]
        lost = True
        return []

    with front_behind(handoff, treat):
        is_on, seen = True, None
        with handoff.connection() as client:
            client.settimeout(4)
            try:
                for name in "aabba":
                    client.sendall(request(f"{name}/1000"))
                    assert answer(client) == pattern(name, 1000)
            except OSError as error:
                seen = type(error)
        eventually(lambda: lost)
        assert seen is SEEN[kind]
        with handoff.connection() as client:
            for name in "ab":
                client.sendall(request(f"{name}/{SIZE}"))
                assert answer(client) == pattern(name, SIZE)
