"""Request hand-off: which requests the front relays since they are small, and which of several back ends it chooses."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from experiments.handoff.network import METRICS, URL, Network
from tests.netns.handoff_world import SIZE, HandOff, answer, needs_tools, pattern, request
from tests.netns.world import eventually

pytestmark = needs_tools

LARGE = 20 * SIZE
EITHER = """\
[[handoff.rules]]
path = "/a/"
max_size = "1MB"
to = ["a"]
[[handoff.rules]]
path = "/a/"
to = ["a", "b"]
choose = "least-loaded"
"""


@pytest.fixture
def started(handoff: HandOff) -> Iterator[Callable[..., None]]:
    """Restarts the front with other settings."""

    def start(*arguments: str, relay_below: str) -> None:
        handoff.processes.pop("front").stop()
        handoff.processes["front"] = handoff.network.start_front(*arguments, relay_below=relay_below)
        eventually(lambda: handoff.is_handed(f"a/{LARGE}"))

    yield start


def ways(network: Network) -> dict[str, int]:
    """How many requests went each way so far."""
    start = 'tributary_converter_handoff_requests_total{decision="'
    text = network.nodes["front"].run("curl", "--silent", f"http://{METRICS}/metrics")
    counts = (line.removeprefix(start).split('"} ') for line in text.splitlines() if line.startswith(start))
    return {way: int(count) for way, count in counts}


def has_lines(handoff: HandOff, count: int) -> None:
    """Waits for so many in the access log."""
    eventually(lambda: len(handoff.lines()) == count)


def has_at_back_ends(handoff: HandOff, count: int) -> None:
    """Waits for so many connections there."""
    eventually(lambda: len(handoff.at_back_ends()) == count)


def outcomes(handoff: HandOff, *paths: str) -> list[str]:
    """Of requests, each by a connection of its own."""
    before = len(handoff.lines())
    for number, path in enumerate(paths):
        handoff.curl("--output", "/dev/null", URL + path)
        has_lines(handoff, before + number + 1)
    return [line["outcome"] for line in handoff.lines()[before:]]


def test_a_small_object_is_relayed_once_it_is_known_and_a_large_one_is_handed_over(
    handoff: HandOff, started: Callable[..., None]
) -> None:
    started(relay_below="64kB")
    assert outcomes(handoff, f"b/{SIZE}", "b/1000") == ["handed-over"] * 2, "nobody knows"
    before = ways(handoff.network)
    assert outcomes(handoff, "b/1000", f"b/{SIZE}", "b/1000?query") == ["ok", "handed-over", "ok"]
    assert handoff.lines()[-1]["server"] == handoff.network.http("b")
    after = ways(handoff.network)
    assert (after["small"] - before.get("small", 0), after["handed-over"] - before["handed-over"]) == (2, 1)


def test_what_is_below_the_operators_number_is_relayed(
    handoff: HandOff, started: Callable[..., None], tmp_path: Path
) -> None:
    started(relay_below="3MB")
    paths = (f"b/{SIZE}", f"b/{SIZE}", f"b/{LARGE}", f"b/{LARGE}")
    assert outcomes(handoff, *paths) == ["handed-over", "ok", "handed-over", "handed-over"]
    handoff.curl("--head", URL + f"b/{LARGE}")
    eventually(lambda: handoff.lines()[-1]["outcome"] == "ok")
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(pattern("small", SIZE))
    large.write_bytes(pattern("large", 2 * SIZE))
    for source, outcome in ((small, "ok"), (large, "handed-over")):
        before = len(handoff.lines())
        upload = ("--header", "Expect: 100-continue", "--upload-file", str(source))
        handoff.curl("--fail", *upload, URL + f"b/{source.name}")
        has_lines(handoff, before + 1)
        assert handoff.lines()[-1]["outcome"] == outcome
        assert (handoff.network.objects("b") / "b" / source.name).read_bytes() == source.read_bytes()


def test_a_connection_goes_from_a_back_end_to_the_front_for_a_small_object_of_another_one(
    handoff: HandOff, started: Callable[..., None], tmp_path: Path
) -> None:
    started(relay_below="10kB")
    outcomes(handoff, "b/1000", "a/1000")
    before = len(handoff.lines())
    paths = [f"a/{SIZE}", "a/1000", "b/1000", f"b/{SIZE}"]
    assert handoff.fetch(paths, tmp_path) == [pattern(path[0], int(path[2:])) for path in paths]
    has_lines(handoff, before + 4)
    outcomes_of = [line["outcome"] for line in handoff.lines()[before:]]
    assert outcomes_of == ["handed-over", "handed-over", "ok", "handed-over"], "it stays where it is, if it may"


@contextmanager
def downloads(handoff: HandOff, path: str, count: int) -> Iterator[None]:
    """So many that nobody reads, for the length of the block."""
    with ExitStack() as stack:
        for number in range(count):
            client = stack.enter_context(handoff.connection())
            client.sendall(request(path))
            has_at_back_ends(handoff, number + 1)
        yield


def test_the_least_loaded_back_end_is_chosen_for_what_no_rule_of_sizes_is_for(
    handoff: HandOff, started: Callable[..., None]
) -> None:
    network = handoff.network
    for path in (f"a/{LARGE}", "a/1000"):
        (network.objects("b") / "a").mkdir(exist_ok=True)
        (network.objects("b") / path).write_bytes(pattern("a", int(path[2:])))
    started(EITHER, relay_below="0B")
    eventually(lambda: not handoff.at_back_ends())
    with downloads(handoff, f"a/{LARGE}", 6):
        at = [line.split()[3] for line in handoff.at_back_ends()]
        assert sorted(at) == sorted([network.hand_off("a"), network.hand_off("b")] * 3)
        assert outcomes(handoff, "a/1000", "a/1000", "a/1000")[1:] == ["handed-over"] * 2
        assert [line["target"] for line in handoff.lines()[-2:]] == ["a", "a"]
    with handoff.connection() as client:
        client.sendall(request(f"a/{LARGE}"))
        assert answer(client) == pattern("a", LARGE)
