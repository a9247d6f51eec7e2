from throttler.sessions import Session, Sessions
from tributary.mptcp.events import (
    Ended,
    Event,
    SessionClosed,
    SubflowClosed,
    SubflowEstablished,
    SubflowPriority,
)
from tributary.mptcp.four_tuple import FourTuple

FIRST = FourTuple("10.0.1.1", 3128, "10.0.1.2", 40001)
JOINED = FourTuple("10.0.1.1", 3128, "10.0.2.2", 40002)
OPENED = SubflowEstablished(1, 7, FIRST, "wired", initial=True)
JOIN = SubflowEstablished(2, 7, JOINED, "wireless")


def after(*events: Event) -> Sessions:
    sessions = Sessions()
    for event in events:
        sessions.apply(event)
    return sessions


def one_after(*events: Event) -> Session:
    """The one session that there is then."""
    (session,) = after(*events)
    assert session.token == 7
    return session


def test_a_session_has_the_subflows_that_were_established_and_of_a_backup_the_client_says_when_it_is_active() -> None:
    session = one_after(OPENED, JOIN)
    assert [subflow.name for subflow in session.subflows] == [FIRST, JOINED]
    assert session.active == 2
    assert session.since == 1
    backup = SubflowEstablished(2, 7, JOINED, "wireless", backup=True)
    assert one_after(OPENED, backup).active == 1
    assert one_after(OPENED, backup, SubflowPriority(3, 7, JOINED, False)).active == 2


def test_a_closed_subflow_goes_and_its_session_with_the_last() -> None:
    session = one_after(OPENED, JOIN, SubflowClosed(3, 7, FIRST, Ended.RESET))
    assert [subflow.name for subflow in session.subflows] == [JOINED]
    assert len(after(OPENED, SubflowClosed(3, 7, FIRST, Ended.FIN))) == 0


def test_a_closed_session_goes_with_its_subflows_of_which_the_number_is_kept() -> None:
    """One that is told twice is one."""
    sessions = after(OPENED, OPENED, JOIN, JOIN)
    assert [sessions.subflows, len(sessions.known()), *(len(each.subflows) for each in sessions)] == [2, 2, 2]
    sessions.apply(SessionClosed(3, 7, Ended.FASTCLOSE))
    assert (len(sessions), sessions.subflows, sessions.known()) == (0, 0, {})


def test_what_is_known_has_the_backup_flag_that_was_told_last() -> None:
    sessions = after(OPENED, JOIN, SubflowPriority(3, 7, JOINED, backup=True))
    assert sessions.known() == {FIRST: (7, False), JOINED: (7, True)}
    sessions.apply(SubflowPriority(4, 7, JOINED, backup=False))
    assert sessions.known()[JOINED] == (7, False)


def test_a_subflow_of_another_session_takes_the_place_of_one_with_its_addresses_and_ports() -> None:
    sessions = after(OPENED, JOIN)
    assert sessions.apply(SubflowEstablished(3, 8, FIRST, "wired", initial=True)) == {7, 8}
    assert sessions.known() == {FIRST: (8, False), JOINED: (7, False)}
    # The end of the old one is told late, or not at all.
    assert sessions.apply(SubflowClosed(4, 7, FIRST, Ended.RESET)) == {7}
    sessions.apply(SubflowEstablished(5, 9, JOINED, "wireless", initial=True))
    sessions.apply(SessionClosed(6, 7, Ended.CLOSED))
    assert sessions.known() == {FIRST: (8, False), JOINED: (9, False)}
    assert [session.token for session in sessions] == [8, 9]


def test_events_about_what_is_not_known_are_counted_and_change_nothing() -> None:
    sessions = after(
        OPENED,
        SubflowClosed(3, 7, JOINED, Ended.FIN),
        SubflowClosed(3, 8, FIRST, Ended.FIN),
        SubflowPriority(3, 8, FIRST, True),
        SessionClosed(3, 8, Ended.FIN),
    )
    assert sessions.unexpected == {"unexpected SubflowClosed": 2, "unexpected SubflowPriority": 1}
    assert sessions.get(7) is not None
