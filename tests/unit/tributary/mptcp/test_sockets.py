import socket
from contextlib import ExitStack
from dataclasses import replace

from tributary.mptcp import sockets
from tributary.mptcp.events import Ended, SubflowClosed, SubflowEstablished, SubflowPriority
from tributary.mptcp.four_tuple import FourTuple
from tributary.mptcp.sockets import Snapshot, differences

FIRST = FourTuple("10.0.1.1", 3128, "10.0.1.2", 40001)
JOINED = FourTuple("10.0.1.1", 3128, "10.0.2.2", 40002)
NOW = 5


def found(*subflows: tuple[FourTuple, int]) -> Snapshot:
    return Snapshot(tuple(SubflowEstablished(NOW, token, name, "") for name, token in subflows), fallbacks=0)


def interface_of(subflow: FourTuple) -> str | None:
    return {FIRST: "eth0"}.get(subflow)


def test_what_is_new_and_what_is_gone_are_events_and_what_is_known_is_none() -> None:
    events = differences({}, found((FIRST, 7), (JOINED, 7)), interface_of, NOW)
    assert events == [SubflowEstablished(NOW, 7, FIRST, "eth0"), SubflowEstablished(NOW, 7, JOINED, "")]
    assert differences({FIRST: (7, False)}, found((FIRST, 7)), interface_of, NOW) == []
    events = differences({FIRST: (7, False), JOINED: (7, False)}, found((FIRST, 7)), interface_of, NOW)
    assert events == [SubflowClosed(NOW, 7, JOINED, Ended.GONE)]
    events = differences({FIRST: (7, False)}, found((FIRST, 8)), interface_of, NOW)
    assert events == [SubflowClosed(NOW, 7, FIRST, Ended.GONE), SubflowEstablished(NOW, 8, FIRST, "eth0")]


def test_a_session_that_this_host_has_begun_is_none_with_a_client() -> None:
    own = replace(found((FIRST, 7)).subflows[0], is_own=True)
    seen = Snapshot((own, *found((JOINED, 7)).subflows), fallbacks=0)
    assert seen.own() == {7}
    assert differences({}, seen, interface_of, NOW) == []


def test_a_backup_flag_that_differs_is_set_right() -> None:
    backup = replace(found((FIRST, 7)).subflows[0], backup=True)
    told = {False: found((FIRST, 7)), True: Snapshot((backup,), fallbacks=0)}
    for known in (False, True):
        assert differences({FIRST: (7, known)}, told[known], interface_of, NOW) == []
        events = differences({FIRST: (7, known)}, told[not known], interface_of, NOW)
        assert events == [SubflowPriority(NOW, 7, FIRST, not known)]


def test_all_tcp_sockets_are_counted_also_those_that_have_nothing_to_do_with_mptcp() -> None:
    """A look at the subflows passes them all: 60,000 connections to servers cost as much as so many subflows."""
    before = sockets.count()
    with ExitStack() as stack:
        for address, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
            listener = stack.enter_context(socket.create_server((address, 0), family=family))
            for _ in range(25):
                stack.enter_context(socket.create_connection(listener.getsockname()[:2]))
        # Others come and go meanwhile.
        assert 60 < sockets.count() - before < 300
