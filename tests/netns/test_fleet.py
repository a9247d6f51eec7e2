"""Three gateways behind one address, as ansible/inventory/fleet.yml has them, and two hundred clients."""

import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

import pytest

from tests.ansible.playbooks import needs_ansible
from tests.netns.fleet_gateway import JOINS, PORT, SHARED, WITHOUT_BFD
from tests.netns.fleet_world import HOMES, Fleet, Home, Session, home_of, needs_tools, standing
from tests.netns.world import eventually, sysctl
from tributary.settings.errors import CommandError

pytestmark = [needs_tools, needs_ansible, pytest.mark.slow]

ALL = set(range(1, HOMES + 1))
ENOUGH = HOMES // 6  # half of a node's share: what every node has to get
MUCH = 1 << 18
CLOSE_TIMEOUT = Path("/proc/sys/net/mptcp/close_timeout")


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with standing() as built:
        yield built


def grown(fleet: Fleet, before: dict[str, dict[str, int]], counter: str) -> dict[str, int]:
    return {name: gateway.counters()[counter] - before[name][counter] for name, gateway in fleet.gateways.items()}


def counters(fleet: Fleet) -> dict[str, dict[str, int]]:
    return {name: dict(gateway.counters()) for name, gateway in fleet.gateways.items()}


def subflows(sessions: list[Session]) -> set[int]:
    return {session.subflows() for session in sessions}


def joined(sessions: list[Session]) -> bool:
    return subflows(sessions) == {2}


@pytest.mark.parametrize("version", [4, 6], ids=["ipv4", "ipv6"])
def test_every_join_lands_on_the_node_that_has_the_session(fleet: Fleet, version: int) -> None:
    before = counters(fleet)
    with fleet.sessions(version) as sessions:
        eventually(lambda: joined(sessions))
        where = fleet.where()
        assert set.union(*where.values()) == ALL
        assert sum(map(len, where.values())) == HOMES
        assert min(map(len, where.values())) > ENOUGH, where
        for name, gateway in fleet.gateways.items():
            for found in gateway.sessions().values():
                assert are_right(fleet, version, name, dict(found)), found
        begun = {name: len(homes) for name, homes in where.items()}
        print(f"sessions by node: {begun}")
        assert grown(fleet, before, "MPJoinSynRx") == grown(fleet, before, "MPJoinAckRx") == begun
        assert set(grown(fleet, before, "MPJoinNoTokenFound").values()) == {0}


def are_right(fleet: Fleet, version: int, name: str, found: dict[str, str]) -> bool:
    """One at the shared address by the home's first link, and one at the node's own by its second."""
    home = fleet.homes[home_of(found[SHARED[version]]) - 1]
    # A session that began over IPv6 may join over IPv4 too: the node's address for that is announced first.
    ways = [
        {SHARED[version]: home.address("dsl", version), own: home.address("lte", joined)}
        for joined, own in zip((4, 6), JOINS[name], strict=True)
        if joined <= version
    ]
    return found in ways


def test_without_the_roles_setting_joins_go_astray(fleet: Fleet) -> None:
    before = counters(fleet)
    with ExitStack() as stack:
        for gateway in fleet.gateways.values():
            stack.enter_context(sysctl(gateway.host, net__mptcp__allow_join_initial_addr_port=1))
        stack.enter_context(fleet.sessions())
        # Two of three, if the router throws dice.
        eventually(lambda: sum(grown(fleet, before, "MPJoinNoTokenFound").values()) > HOMES / 2)


@pytest.fixture
def meshed(fleet: Fleet) -> Iterator[list[Home]]:
    """Some homes that join at announced addresses from both links."""
    homes = list(fleet.homes[:20])
    for home in homes:
        ends = [f"endpoint add {home.address(link)} dev {link} subflow fullmesh" for link in ("dsl", "lte")]
        home.path_manager("endpoint flush", "limits set subflow 4 add_addr_accepted 1", *ends)
    yield homes
    for home in homes:
        ends = [f"endpoint add {home.address('lte', version)} dev lte subflow" for version in SHARED]
        home.path_manager("endpoint flush", "limits set subflow 2 add_addr_accepted 0", *ends)


def test_a_link_that_was_away_joins_again_where_both_links_have_joined(fleet: Fleet, meshed: list[Home]) -> None:
    with fleet.sessions(homes=meshed) as sessions:
        eventually(lambda: subflows(sessions) == {3})
        for home in meshed:
            found = json.loads(home.node.run("ip", "-j", "mptcp", "endpoint"))
            number = next(end["id"] for end in found if end["dev"] == "lte")
            home.path_manager(f"endpoint delete id {number}")
        eventually(lambda: subflows(sessions) == {2})
        for home in meshed:
            home.path_manager(f"endpoint add {home.address('lte')} dev lte subflow fullmesh")
        eventually(lambda: subflows(sessions) == {3})


@pytest.mark.parametrize("hashing", ["plain", "resilient"])
def test_a_drained_nodes_sessions_end_well_and_new_ones_go_elsewhere(fleet: Fleet, hashing: str) -> None:
    drained = fleet.gateways["gw1"]
    with hashed(fleet, hashing), fleet.whole(), fleet.sessions() as old:
        eventually(lambda: joined(old))
        here = fleet.where()["gw1"]
        eventually(lambda: len(drained.sessions()) == len(here))  # those of the test before have ended
        said = drained.anycast("drain", "--reason", "upgrade", "--wait", "1", "--port", str(PORT))
        assert f"{len(here)} connections have not ended in 1 s" in said
        fleet.router.wait_for({"gw2", "gw3"}, 5)
        with fleet.sessions():
            assert fleet.where()["gw1"] == here
            assert len(drained.sessions()) == len(here)
        start = time.monotonic()
        fleet.exchange(old, MUCH)
        seconds = time.monotonic() - start
        moved = [session for session in old if session.home.number not in here and session.subflows() < 2]
        print(f"{len(here)} sessions went on for {seconds:.1f} s; {len(moved)} others lost a subflow")
        assert hashing == "plain" or not moved
        list(fleet.pool.map(Session.end, old))
        eventually(lambda: not drained.sessions())
    with fleet.sessions():
        assert len(fleet.where()["gw1"]) > ENOUGH


@pytest.mark.parametrize(("name", "most"), [("gw1", 4.0), (WITHOUT_BFD, 12.0)], ids=["bfd", "hold-time"])
def test_clients_of_a_dead_node_connect_anew_and_others_notice_nothing(fleet: Fleet, name: str, most: float) -> None:
    with fleet.router.resilient(), fleet.whole(), fleet.sessions() as old:
        eventually(lambda: joined(old))
        here = fleet.where()[name]
        start = time.monotonic()
        fleet.gateways[name].die()
        coming = [fleet.pool.submit(connect_anew, home, start) for home in fleet.homes if home.number in here]
        others = [session for session in old if session.home.number not in here]
        fleet.exchange(others, MUCH)
        fleet.router.wait_for({"gw1", "gw2", "gw3"} - {name}, most)
        known = time.monotonic() - start
        served = sorted(future.result() for future in coming)
        fleet.exchange(others, MUCH)
        print(
            f"{name} dead: the router knows after {known:.2f} s, its {len(here)} clients are served again after"
            f" {served[len(served) // 2]:.2f} s (median) to {served[-1]:.2f} s"
        )
        assert [session.subflows() for session in others] == [2] * len(others)
        assert served[-1] < most + 2


def connect_anew(home: Home, start: float) -> float:
    """Connect until that works, a second for each try; returns the seconds from ``start`` to the first answer."""
    while True:
        try:
            session = home.open(seconds=1)
            session.exchange()
        except OSError:
            continue
        session.connection.close()
        return time.monotonic() - start


@pytest.mark.skipif(not CLOSE_TIMEOUT.exists(), reason="no net.mptcp.close_timeout in this kernel")
def test_a_dead_nodes_sessions_are_reset_by_the_nodes_that_live(fleet: Fleet) -> None:
    timeout = 1.0
    for home in fleet.homes:
        with home.node.entered():
            CLOSE_TIMEOUT.write_text(f"{timeout:.0f}")
    with fleet.whole(), fleet.sessions() as old:
        eventually(lambda: joined(old))
        here = fleet.where()["gw1"]
        start = time.monotonic()
        fleet.gateways["gw1"].die()
        mine = [session for session in old if session.home.number in here]
        ends = sorted(fleet.pool.map(lambda session: broken_after(session, start), mine))
        print(f"{len(ends)} sessions broke after {ends[0]:.2f} to {ends[-1]:.2f} s")
        assert ends[-1] < 8


def broken_after(session: Session, start: float) -> float:
    """Send until the session's end is known; returns the seconds from ``start``."""
    try:
        while time.monotonic() < start + 30:
            session.exchange()
    except OSError:
        pass
    return time.monotonic() - start


def test_a_node_whose_converter_died_is_withdrawn_until_it_is_back(fleet: Fleet) -> None:
    with fleet.whole():
        start = time.monotonic()
        fleet.gateways["gw2"].kill("converter")
        fleet.router.wait_for({"gw1", "gw3"}, 15)
        print(f"withdrawn after {time.monotonic() - start:.1f} s")
        with fleet.sessions():
            assert not fleet.where()["gw2"]


def test_a_node_that_no_router_hears_is_not_announced(fleet: Fleet) -> None:
    gateway = fleet.gateways["gw2"]
    right = gateway.files["/etc/bird/bird.conf"]
    with fleet.whole():
        gateway.configure(right.replace("hold time 9;", 'hold time 9; password "wrong";'))
        try:
            fleet.router.wait_for({"gw1", "gw3"}, 15)
            with pytest.raises(CommandError, match="exit code 1"):
                gateway.anycast("status")
            eventually(lambda: not gateway.status()["announced"] and not gateway.status()["heard"])
            # By IPv6 alone it is heard.
            gateway.configure(right.replace("hold time 9;", 'hold time 9; password "wrong";', 1))
            with fleet.router.changed:
                assert fleet.router.changed.wait_for(lambda: "gw2" in fleet.router.now[6], 15)
            with pytest.raises(CommandError, match="exit code 1"):
                gateway.anycast("status")
            assert not gateway.status()["heard"]
        finally:
            gateway.configure(right)
    gateway.anycast("status")
    eventually(lambda: gateway.status()["announced"])


def test_another_address_of_a_nodes_own_takes_the_place_of_the_one_before(fleet: Fleet) -> None:
    gateway, (old, old6), new = fleet.gateways["gw3"], JOINS["gw3"], "198.51.100.99"
    with gateway.readdressed(old, new):
        assert gateway.own_addresses() == ({*SHARED.values(), new, old6}, {new, old6})
        assert old not in gateway.host.run("ip", "route", "show", "table", "local")
    assert gateway.own_addresses() == ({*SHARED.values(), old, old6}, {old, old6})


def hashed(fleet: Fleet, hashing: str) -> AbstractContextManager[None]:
    return fleet.router.resilient() if hashing == "resilient" else nullcontext()
