import os
import socket
import struct
from contextlib import ExitStack

import pytest

from tests.refusals import command_error
from tributary.kernel.netlink import (
    GENERIC,
    ROUTE,
    SOCK_DIAG,
    Malformed,
    Message,
    Netlink,
    attribute,
    attributes,
    family,
    messages,
)
from tributary.settings.errors import CommandError, Exit

BODY = attribute(1, b"abc") + attribute(2, b"") + attribute(300, b"abcde") + attribute(0x8003, attribute(7, b"inner"))
DATAGRAM = struct.pack("=IHHII", 16 + len(BODY), 20, 0, 5, 0) + BODY


def test_attributes_and_messages_are_read_as_they_were_written() -> None:
    assert len(BODY) % 4 == 0
    assert list(attributes(BODY)) == [(1, b"abc"), (2, b""), (300, b"abcde"), (3, attribute(7, b"inner"))]
    assert list(messages(DATAGRAM * 2)) == [Message(20, 0, 5, BODY)] * 2


@pytest.mark.parametrize("length", range(16, len(DATAGRAM)))
def test_a_message_that_is_cut_off_is_malformed(length: int) -> None:
    with pytest.raises(Malformed):
        list(messages(DATAGRAM[:length]))


@pytest.mark.parametrize("length", [0, 1, 2, 3, 9, 200, 65535])
def test_an_attribute_with_a_wrong_length_is_malformed(length: int) -> None:
    with pytest.raises(Malformed):
        list(attributes(struct.pack("=HH", length, 1) + b"abcd"))


def test_a_family_that_the_kernel_does_not_have_is_a_failure() -> None:
    with Netlink(GENERIC) as link, command_error(Exit.UNAVAILABLE):
        family(link, "no_such_family")


def test_the_kernels_own_words_are_in_the_error() -> None:
    with Netlink(ROUTE) as link, pytest.raises(OSError) as caught:
        link.ask(26, bytes(12))  # RTM_GETROUTE without a family
    assert caught.value.errno and str(caught.value) != os.strerror(caught.value.errno)


def test_a_request_that_is_refused_leaves_the_socket_usable() -> None:
    with Netlink(GENERIC) as link:
        with pytest.raises(CommandError):
            family(link, "no_such_family")
        number, groups = family(link, "nlctrl")
    assert number == 16 and "notify" in groups


def test_a_dump_that_is_read_in_part_leaves_room_for_the_next_one() -> None:
    """The kernel refuses a second one while one goes on: more of them than one datagram holds are asked for."""
    every = struct.pack("=BBBxI48x", socket.AF_INET, socket.IPPROTO_TCP, 0, 1 << 10)  # struct inet_diag_req_v2
    with ExitStack() as stack, Netlink(SOCK_DIAG) as link:
        for _ in range(600):
            stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        assert any(link.dump(20, every))
        assert sum(1 for _ in link.dump(20, every)) >= 600
