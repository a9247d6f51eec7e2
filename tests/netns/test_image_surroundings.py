"""What the images' own tests boot a home router into; those run by their paths alone."""

from pathlib import Path

from tests.image.home_world import surroundings
from tests.netns.traces import nothing_new, traces
from tests.netns.world import eventually


def test_what_is_around_a_booted_home_router_stands_and_goes(tmp_path: Path) -> None:
    before = traces()
    with surroundings(tmp_path) as network:
        assert network.server.run("ping", "-c", "1", "-W", "2", "203.0.113.1")
        assert [link.name for link in network.links] == ["dsl", "lte"]
    eventually(lambda: nothing_new(before))
