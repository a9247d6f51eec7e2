import struct
from contextlib import suppress

import pytest

from tributary.kernel.netlink import Malformed, Message, attribute, messages
from tributary.mptcp.events import Ended, SessionClosed, SubflowClosed, SubflowEstablished, SubflowPriority
from tributary.mptcp.path_manager import read

CREATED = (
    "7c0000001c000000000000000000000001010000080001000bc741e2050012000100000006000d0002000000060002000a00"
    "00001400060000000000000000000000ffff0a0001011400080000000000000000000000ffff0a000102060009000c390000"
    "06000a0099c6000005000300000000000500040000000000"
)
JOINED = (
    "740000001c00000000000000000000000a010000080001000bc741e2060002000a0000001400060000000000000000000000"
    "ffff0a0001011400080000000000000000000000ffff0a000202060009000c39000006000a00b72700000500030000000000"
    "050004000300000005000b0001000000"
)
PRIORITY = (
    "740000001c00000000000000000000000d010000080001000bc741e2060002000a0000001400060000000000000000000000"
    "ffff0a0001011400080000000000000000000000ffff0a000202060009000c39000006000a00b72700000500030000000000"
    "050004000300000005000b0000000000"
)
SUB_CLOSED = (
    "740000001c00000000000000000000000b010000080001000bc741e2060002000a0000001400060000000000000000000000"
    "ffff0a0001011400080000000000000000000000ffff0a000202060009000c39000006000a00b72700000500030000000000"
    "050004000300000005000b0000000000"
)
CLOSED = "1c0000001c000000000000000000000003010000080001000bc741e2"
CAPTURED = [CREATED, JOINED, PRIORITY, SUB_CLOSED, CLOSED]


def only(text: str) -> Message:
    (found,) = messages(bytes.fromhex(text))
    return found


def event(text: str) -> object:
    return read(only(text), 5, lambda _: "wired")


def test_a_session_is_reported_with_its_first_subflow_and_a_join_with_its_backup_flag() -> None:
    found = event(CREATED)
    assert isinstance(found, SubflowEstablished)
    assert (found.time, found.interface, found.initial) == (5, "wired", True)
    assert (found.subflow.local, found.subflow.local_port, found.subflow.remote) == ("10.0.1.1", 3129, "10.0.1.2")
    found = event(JOINED)
    assert isinstance(found, SubflowEstablished)
    assert (found.initial, found.backup, found.subflow.remote) == (False, True, "10.0.2.2")


@pytest.mark.parametrize(
    ("without", "is_own"),
    [((), False), (("attribute",), False), (("flag",), False), (("attribute", "flag"), True)],
)
def test_a_session_that_this_host_has_begun_is_its_own(without: tuple[str, ...], is_own: bool) -> None:
    """Linux 6.1 has the attribute alone; 6.18 the flag as well, and leaves out the attribute where it would be 0."""
    said = {"attribute": ("0500120001000000", ""), "flag": ("06000d0002000000", "06000d0000000000")}
    text = CREATED
    for each in without:
        assert said[each][0] in text
        text = text.replace(*said[each])
    data = struct.pack("=I", len(text) // 2) + bytes.fromhex(text)[4:]
    (message,) = messages(data)
    found = read(message, 5, lambda _: "wired")
    assert isinstance(found, SubflowEstablished) and found.is_own is is_own


def test_priority_and_ends_name_what_they_are_about() -> None:
    joined, priority, closed = event(JOINED), event(PRIORITY), event(SUB_CLOSED)
    assert isinstance(joined, SubflowEstablished)
    assert priority == SubflowPriority(5, joined.token, joined.subflow, False)
    assert closed == SubflowClosed(5, joined.token, joined.subflow, Ended.CLOSED)
    assert isinstance(event(CLOSED), SessionClosed)


def test_an_unknown_attribute_is_passed_over() -> None:
    kind, flags, sequence, body = (getattr(only(CREATED), name) for name in ("kind", "flags", "sequence", "body"))
    more = Message(kind, flags, sequence, body + attribute(999, b"new"))
    assert read(more, 5, lambda _: "wired") == event(CREATED)


@pytest.mark.parametrize("text", CAPTURED)
def test_a_message_cut_anywhere_raises_nothing_else(text: str) -> None:
    data = bytes.fromhex(text)
    for end in range(len(data)):
        with suppress(Malformed):
            assert list(messages(data[:end])) == []
        whole = only(text)
        read(Message(whole.kind, whole.flags, whole.sequence, whole.body[:end]), 5, lambda _: None)
