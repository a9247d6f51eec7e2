"""A native converter of short timeouts and small buffers, one for each test."""

from collections.abc import Iterator

import pytest

from tests.netns.converter_world import ALL, Converter, World

TIMES = '[timeouts]\nrequest = "600ms"\nconnect = "3s"\nidle = "30s"\nhalf_closed = "600ms"\n'
BUFFER = 64 << 10
SHORT_TIMEOUTS = ALL + TIMES + '[limits]\nbuffer = "64KiB"\n'


@pytest.fixture
def running(conv: World) -> Iterator[Converter]:
    with conv.converter(SHORT_TIMEOUTS) as converter:
        yield converter


@pytest.fixture
def net(conv: World, running: Converter) -> World:
    """The world with a converter in it."""
    assert running.popen.poll() is None
    return conv
