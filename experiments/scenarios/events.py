"""What happens to a link in the course of a download: each event with its steps, and who takes them in time."""

import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from threading import Event

from experiments.record import Download
from experiments.testbed.build import Testbed
from experiments.testbed.impairment import lossy, other_address, without_address

Course = Generator[float, None, None]
"""An event, step by step: it yields how many seconds shall pass before it goes on."""


@dataclass(frozen=True)
class Span:
    """From when to when an event lasted, in Unix time."""

    begun: float
    ended: float


def cut(testbed: Testbed, seconds: float, _afterwards: ExitStack) -> Course:
    """The first link is a black hole."""
    with lossy(testbed, testbed.topology.links[0]):
        yield seconds


def flap(testbed: Testbed, seconds: float, _afterwards: ExitStack) -> Course:
    """The first link is a black hole, whole, a black hole, whole, and a black hole."""
    part = seconds / 5
    for pause in (part, part, 0.0):
        with lossy(testbed, testbed.topology.links[0]):
            yield part
        if pause:
            yield pause


def half_dead(testbed: Testbed, seconds: float, _afterwards: ExitStack) -> Course:
    """The first link loses every other packet at random, each way."""
    with lossy(testbed, testbed.topology.links[0], 50):
        yield seconds


def address_change(testbed: Testbed, seconds: float, afterwards: ExitStack) -> Course:
    """The client is gone from the second link, and comes back with another address, until ``afterwards``."""
    joined = testbed.topology.links[1]
    afterwards.enter_context(without_address(testbed, joined))
    yield seconds
    afterwards.enter_context(other_address(testbed, joined, str(joined.client4 + 1)))


EVENTS: Mapping[str, Callable[[Testbed, float, ExitStack], Course]] = {
    "cut": cut,
    "flap": flap,
    "half-dead": half_dead,
    "address-change": address_change,
}
"""Each takes the seconds that it lasts, and a stack for what is undone when the download is over."""


def meanwhile(
    course: Course, before: float, download: Callable[[Callable[[int], None]], Download]
) -> tuple[Download, Span]:
    """Download while an event takes its ``course``, from ``before`` seconds after the first bytes on.

    ``download`` calls its argument when bytes have come. If it fails, the event is broken off.
    """
    requested, broken_off = Event(), Event()
    with closing(course), ThreadPoolExecutor(1) as executor:
        span = executor.submit(_take, course, before, requested, broken_off)
        try:
            done = download(lambda _received: requested.set())
        except BaseException:
            broken_off.set()
            requested.set()
            raise
        return done, span.result()


def _take(course: Course, before: float, requested: Event, broken_off: Event) -> Span:
    requested.wait()
    broken_off.wait(before)
    begun = time.time()
    for pause in course:
        if broken_off.wait(pause):
            break
    return Span(begun, time.time())
