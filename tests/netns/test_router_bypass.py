import signal

import pytest

from tests.netns.lan_world import DEVICE, MAC, Home
from tests.netns.router_world import PROBED, SERVER_4
from tests.netns.world import eventually
from tributary.api.places import ROUTER
from tributary.settings.errors import CommandError

SHOWN = """[[bypassed]]
match = ["domains: example.com"]
to = "lte"
"""


def bypass(home: Home, match: str, to: str | None) -> None:
    with home.nodes["router"].entered():
        ROUTER.ask("set-bypass", match=match, to=to)


def listed(home: Home) -> list[dict[str, object]]:
    with home.nodes["router"].entered():
        found: list[dict[str, object]] = ROUTER.ask("lan")["bypass"]
    return found


def uses(home: Home, link: str) -> bool:
    """Whether a new connection of the device comes by this link."""
    before = home.received(link)
    home.download(300_000)
    return home.received(link) - before > 300_000


@pytest.mark.parametrize("match", [f"{SERVER_4}/32", MAC])
def test_new_connections_leave_by_the_link_that_was_said(home: Home, match: str) -> None:
    with home.daemon(home.text + SHOWN) as daemon:
        assert uses(home, "dsl")
        bypass(home, match, "lte")
        assert uses(home, "lte")
        shown = {"match": ["domains: example.com"], "to": "lte", "added": False}
        assert listed(home) == [{"match": [match], "to": "lte", "added": True}, shown]
        bypass(home, match, "best")
        assert uses(home, "dsl")
        bypass(home, match, "lte")
        daemon.send_signal(signal.SIGHUP)
        assert eventually(lambda: listed(home) == [shown])
        assert uses(home, "dsl")
        bypass(home, match, "lte")
    assert "tributary-bypass" not in home.on_router("nft list tables")


def test_what_is_none_is_refused(home: Home) -> None:
    with home.daemon(home.text):
        for match, to, part in (
            (DEVICE, "lte", "a network of the Internet"),
            ("0.0.0.0/0", "lte", "a network of the Internet"),
            ("198.51.100.1/24", "lte", "without host bits"),
            ("8.8.8.0/24; flush ruleset", "lte", "accepted"),
            ("2a00:1450::1%x; flush ruleset", "lte", "accepted"),
            ("8.8.8.0/24", "adsl", "accepted: best, dsl, lte"),
        ):
            with pytest.raises(CommandError, match=part):
                bypass(home, match, to)
        for number in range(64):
            bypass(home, f"8.8.{number}.0/24", "lte")
        with pytest.raises(CommandError, match="there are 64"):
            bypass(home, "8.9.0.0/24", "lte")
    with home.daemon(PROBED), pytest.raises(CommandError, match="bypass = true"):
        bypass(home, "8.8.8.0/24", "lte")
