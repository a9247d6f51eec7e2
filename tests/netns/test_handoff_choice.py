import re
from contextlib import ExitStack
from pathlib import Path

from experiments.handoff.network import URL
from tests.netns.handoff_world import LONG, SIZE, HandOff, get, needs_tools, pattern, request
from tests.netns.world import eventually

pytestmark = needs_tools

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


def relay_below(handoff: HandOff, size: str, *rules: str) -> None:
    """Restarts the front with this setting."""
    handoff.restart("front", *rules, relay_below=size)
    eventually(lambda: handoff.is_handed(f"a/{LONG}"))


def ways(handoff: HandOff) -> dict[str, int]:
    """How many requests went each way so far."""
    found = re.findall(r'^tributary_converter_handoff_requests_total{decision="(.*)"} (\d+)$', handoff.metrics(), re.M)
    return {way: int(count) for way, count in found}


def has_lines(handoff: HandOff, count: int) -> None:
    """Waits for so many in the access log."""
    eventually(lambda: len(handoff.lines()) == count)


def outcomes(handoff: HandOff, *paths: str) -> list[str]:
    """Of requests, each by a connection of its own."""
    before = len(handoff.lines())
    for number, path in enumerate(paths):
        handoff.curl("--output", "/dev/null", URL + path)
        has_lines(handoff, before + number + 1)
    return [line["outcome"] for line in handoff.lines()[before:]]


def test_a_small_object_is_relayed_once_it_is_known_and_a_large_one_is_handed_over(handoff: HandOff) -> None:
    relay_below(handoff, "64kB")
    assert outcomes(handoff, f"b/{SIZE}", "b/1000") == ["handed-over"] * 2, "nobody knows"
    before = ways(handoff)
    assert outcomes(handoff, "b/1000", f"b/{SIZE}", "b/1000?query") == ["ok", "handed-over", "ok"]
    assert handoff.lines()[-1]["server"] == handoff.network.http("b")
    after = ways(handoff)
    assert (after["small"] - before.get("small", 0), after["handed-over"] - before["handed-over"]) == (2, 1)


def test_a_connection_goes_from_a_back_end_to_the_front_for_a_small_object_of_another_one(
    handoff: HandOff, tmp_path: Path
) -> None:
    relay_below(handoff, "10kB")
    outcomes(handoff, "b/1000", "a/1000")
    before = len(handoff.lines())
    paths = [f"a/{SIZE}", "a/1000", "b/1000", f"b/{SIZE}"]
    assert handoff.fetch(paths, tmp_path) == [pattern(path[0], int(path[2:])) for path in paths]
    has_lines(handoff, before + 4)
    outcomes_of = [line["outcome"] for line in handoff.lines()[before:]]
    assert outcomes_of == ["handed-over", "handed-over", "ok", "handed-over"], "it stays where it is, if it may"


def test_the_least_loaded_back_end_is_chosen_for_what_no_rule_of_sizes_is_for(handoff: HandOff) -> None:
    network = handoff.network
    (network.objects("b") / "a").mkdir(exist_ok=True)
    for size in (LONG, 1000):
        (network.objects("b") / f"a/{size}").write_bytes(pattern("a", size))
    relay_below(handoff, "0B", EITHER)
    eventually(lambda: not handoff.at_back_ends())
    with ExitStack() as unread:
        for number in range(6):
            unread.enter_context(handoff.connection()).sendall(request(f"a/{LONG}"))
            eventually(lambda: len(handoff.at_back_ends()) == number + 1)  # noqa: B023
        at = [line.split()[3] for line in handoff.at_back_ends()]
        assert sorted(at) == sorted([network.hand_off("a"), network.hand_off("b")] * 3)
        assert outcomes(handoff, "a/1000", "a/1000", "a/1000")[1:] == ["handed-over"] * 2
        assert [line["target"] for line in handoff.lines()[-2:]] == ["a", "a"]
    with handoff.connection() as client:
        get(client, "a", LONG)
