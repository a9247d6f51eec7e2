"""Access links that come, go and change under a running session, with the real kernel."""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.netns.router_world import PROBED, SERVER_4, SERVER_6, SETTINGS, World, stop, world
from tests.netns.world import eventually, process, said_ready
from tests.unit.tributary.test_secrets import SECRET, WRONG

pytestmark = pytest.mark.slow

ADDRESSES = {"dsl": "10.1.0.2", "lte": "10.2.0.2"}
BOTH = sorted(ADDRESSES.values())
BACK = 2.0
"""Seconds in which a lost subflow is there again."""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as built:
        yield built


def joins(house: World, wanted: list[str], seconds: float = 5.0) -> None:
    eventually(lambda: house.subflows() == sorted(wanted), seconds)


@pytest.mark.parametrize(
    ("server", "wanted"), [(SERVER_4, BOTH), (SERVER_6, ["fd00:1::2", "fd00:2::2"])], ids=["ipv4", "ipv6"]
)
def test_a_session_gets_a_subflow_over_each_link(house: World, server: str, wanted: list[str]) -> None:
    with house.daemon(), house.transfer(server):
        joins(house, wanted)


@pytest.mark.parametrize("link", ["dsl", "lte"], ids=["the first subflow's link", "the other link"])
@pytest.mark.smoke
def test_a_cut_link_is_taken_out_the_transfer_goes_on_and_the_link_comes_back(house: World, link: str) -> None:
    other = ADDRESSES["lte" if link == "dsl" else "dsl"]
    with house.daemon(), house.transfer() as transfer:
        joins(house, BOTH)
        house.cut(link)
        joins(house, [other])
        eventually(lambda: ADDRESSES[link] not in house.endpoints() and ADDRESSES[link] not in house.rules())
        assert house.status()[link]["reason"] == "no carrier"
        assert transfer.goes_on()
        house.restore(link)
        joins(house, BOTH, BACK)
        assert transfer.goes_on()


def test_a_link_that_is_switched_off_here_is_taken_out_too(house: World) -> None:
    with house.daemon(), house.transfer() as transfer:
        joins(house, BOTH)
        house.on_router("ip link set lte down")
        joins(house, ["10.1.0.2"])
        assert house.status()["lte"]["reason"] == "its interface is switched off"
        house.on_router("ip link set lte up")
        # Its default route went with it, and comes with the next lease.
        house.on_router("ip route add default via 10.2.0.1 dev lte proto dhcp metric 1025")
        joins(house, BOTH)
        assert transfer.goes_on()


def test_a_session_moves_to_a_links_new_address(house: World) -> None:
    with house.daemon(), house.transfer() as transfer:
        joins(house, BOTH)
        house.on_router("ip addr del 10.2.0.2/24 dev lte")
        house.lease("lte", "10.2.0.77")
        joins(house, ["10.1.0.2", "10.2.0.77"])
        assert {"10.2.0.2"} & {*house.rules(), *house.endpoints()} == set()
        assert {"10.2.0.77"} <= house.rules() & set(house.endpoints())
        assert transfer.goes_on()


def test_a_new_gateway_is_followed_and_breaks_no_subflow(house: World) -> None:
    house.on(house.provider, "ip addr add 10.2.0.254/24 dev isp-lte")
    with house.daemon(), house.transfer() as transfer:
        joins(house, BOTH)
        before = house.endpoints()
        house.on_router("ip route replace default via 10.2.0.254 dev lte proto dhcp metric 1025")
        eventually(lambda: "via 10.2.0.254" in house.on_router("ip route show table 8402"))
        assert "via 10.2.0.254" in house.on_router("ip route show dev lte default metric 2")
        assert house.endpoints() == before
        assert transfer.goes_on()


def test_a_link_that_is_not_there_at_the_start_comes_later_goes_and_comes_under_another_name(tmp_path: Path) -> None:
    with world(tmp_path, ["dsl"]) as house, house.daemon(), house.transfer() as transfer:
        assert house.status()["lte"]["reason"] == "no interface fits its rule"
        house.add_link("lte")
        joins(house, BOTH)
        house.on_router("ip link delete lte")
        joins(house, ["10.1.0.2"])
        eventually(lambda: "10.2.0.2" not in {*house.rules(), *house.endpoints()})
        house.add_link("lte")
        house.on_router("ip link set lte down")
        house.on_router("ip link set lte name lt5")
        house.on_router("ip link set lt5 up")
        house.on_router("ip route add default via 10.2.0.1 dev lt5 proto dhcp metric 1025")
        joins(house, BOTH)
        assert house.endpoints()["10.2.0.2"]["dev"] == "lt5"
        assert transfer.goes_on()


@pytest.mark.parametrize("address", BOTH, ids=["the first subflow", "the joined one"])
def test_a_subflow_that_the_network_resets_comes_back(house: World, address: str) -> None:
    with house.daemon(), house.transfer() as transfer:
        joins(house, BOTH)
        house.on(house.provider, f"ss -K -tn dst {address}")
        eventually(lambda: house.subflows() != BOTH)
        joins(house, BOTH)
        assert transfer.goes_on()


def test_joins_that_the_network_refuses_are_tried_again(house: World) -> None:
    for rule in ("add table inet t", "add chain inet t in { type filter hook input priority 0 ; }"):
        house.on(house.provider, f"nft {rule}")
    house.on(house.provider, "nft add rule inet t in ip saddr 10.2.0.2 reject with tcp reset")
    with house.daemon(), house.transfer():
        first = house.endpoints()["10.2.0.2"]["id"]
        eventually(lambda: house.endpoints().get("10.2.0.2", {"id": first})["id"] != first)
        house.on(house.provider, "nft delete table inet t")
        joins(house, BOTH)


def drop(house: World, link: str) -> None:
    """The provider takes all that comes over a link, and answers nothing; its carrier stays."""
    for rule in ("add table inet t", "add chain inet t in { type filter hook prerouting priority 0 ; }"):
        house.on(house.provider, f"nft {rule}")
    house.on(house.provider, f"nft add rule inet t in iifname isp-{link} drop")


def test_a_link_whose_path_is_dead_is_taken_out_by_probes_and_brought_back(house: World) -> None:
    with house.daemon(PROBED), house.transfer() as transfer:
        joins(house, BOTH)
        eventually(lambda: house.status()["dsl"]["probe"]["rtt_ms"] is not None)
        drop(house, "dsl")
        eventually(lambda: house.status()["dsl"]["reason"] == "the probed target does not answer")
        assert "10.1.0.2" not in house.endpoints()
        assert "10.1.0.2" in house.rules()
        assert "dev dsl" not in house.on_router("ip route show default proto 84")
        assert transfer.goes_on()
        house.on(house.provider, "nft delete table inet t")
        joins(house, BOTH)
        assert house.status()["dsl"]["state"] == "up"


@pytest.mark.parametrize("name", ["tb9", "scout", "delay"])
def test_a_link_is_probed_whatever_it_is_called(house: World, name: str) -> None:
    """A link that is called as the tunnel to an earlier gateway is, or as what other probes are for."""
    with house.daemon(PROBED.replace("[wan.dsl]", f"[wan.{name}]")):
        eventually(lambda: house.status()[name]["probe"]["rtt_ms"] is not None)
        drop(house, "dsl")
        eventually(lambda: house.status()[name]["reason"] == "the probed target does not answer")


def test_when_the_probed_target_is_away_no_link_is_taken_out(house: World) -> None:
    with house.daemon(PROBED):
        eventually(lambda: all(link["probe"]["rtt_ms"] is not None for link in house.status().values()))
        drop(house, "*")
        eventually(lambda: all(link["probe"]["failures"] > 2 for link in house.status().values()))
        assert {link["state"] for link in house.status().values()} == {"up"}
        assert set(BOTH) <= set(house.endpoints())


def test_the_first_subflow_takes_the_link_of_the_best_rank_and_a_backup_is_told_so(house: World) -> None:
    text = '[wan.dsl]\ninterface = "dsl"\nuse = "backup"\n[wan.lte]\ninterface = "lte"\n'
    with house.daemon(text), house.transfer():
        joins(house, BOTH)
        assert "dev lte" in house.on_router(f"ip route get {SERVER_4}")
        assert "src 10.2.0.2" in house.on_router(f"ip route get {SERVER_4}")
        assert "backup" in house.endpoints()["10.1.0.2"]
        assert "backup" not in house.endpoints()["10.2.0.2"]


def test_an_ipv4_default_route_by_an_ipv6_neighbour_leads_out(house: World) -> None:
    house.on_router("ip -4 route replace default via inet6 fd00:2::1 dev lte proto dhcp metric 1025")
    with house.daemon(PROBED), house.transfer():
        joins(house, BOTH)
        assert "via inet6 fd00:2::1" in house.on_router("ip route show default proto 84")
        eventually(lambda: house.status()["lte"]["probe"]["rtt_ms"] is not None)


def test_a_link_is_found_by_an_alternative_name_of_its_interface(house: World) -> None:
    house.on_router("ip link property add dev lte altname enx001122334455")
    with house.daemon(SETTINGS.replace("lt*", "enx001122334455")), house.transfer():
        joins(house, BOTH)
        assert house.status()["lte"]["interface"] == "lte"


def test_a_modem_that_gives_the_lans_network_is_told_in_words_and_the_other_link_goes_on(house: World) -> None:
    house.on_router("ip link add lan0 type bridge")
    house.on_router("ip addr add 10.1.0.1/24 dev lan0")
    house.on_router("ip link set lan0 up")
    with house.daemon(), house.transfer():
        joins(house, [ADDRESSES["lte"]])
        assert house.status()["dsl"]["reason"] == "its network is the LAN's own"


def test_a_point_to_point_link_without_a_gateway_is_used(house: World) -> None:
    # As pppd leaves it: the other end's address, and a default route into the interface.
    house.on_router("ip addr del 10.2.0.2/24 dev lte")
    house.on_router("ip addr add 10.2.0.2 peer 10.2.0.1 dev lte")
    house.on_router("ip route replace default dev lte proto static metric 1025")
    house.on(house.provider, "sysctl -qw net.ipv4.conf.isp-lte.proxy_arp=1")
    with house.daemon(), house.transfer():
        joins(house, BOTH)
        assert house.status()["lte"]["gateways"][0] == "point-to-point"


def test_a_step_that_the_kernel_refuses_is_tried_again_and_the_rest_is_done(house: World) -> None:
    house.on_router("ip route add default via 10.1.0.1 dev dsl metric 2")
    with house.daemon():
        assert set(BOTH) <= set(house.endpoints())
        assert "proto 84" not in house.on_router("ip route show default metric 2")
        house.on_router("ip route del default via 10.1.0.1 dev dsl metric 2")
        eventually(lambda: "dev lte proto 84" in house.on_router("ip route show default metric 2"))


def test_a_flapping_link_ends_as_it_should_and_a_transfer_outlives_it(house: World) -> None:
    with house.daemon(), house.transfer() as transfer:
        joins(house, BOTH)
        for _ in range(5):
            house.cut("dsl")
            time.sleep(0.1)
            house.restore("dsl")
            time.sleep(0.1)
        joins(house, BOTH)
        assert transfer.goes_on()
        eventually(lambda: house.status()["dsl"]["state"] == "up")


def test_a_reload_that_is_refused_tells_no_secret(house: World) -> None:
    """Settings with an enrolment and a contradiction, while the daemon runs: its log has the reason alone."""
    file = house.settings()
    words = ("run", str(file), "--state-directory", str(house.directory / "state"))
    with process(*house.command(*words), stderr=subprocess.PIPE) as child:
        said_ready(child)
        file.write_text(WRONG["an option that needs another"])
        child.send_signal(signal.SIGHUP)
        house.status()
        stop(child)
        assert child.stderr is not None
        log = child.stderr.read()
    assert "not reloaded" in log and "accepted" in log
    assert SECRET[2:-3] not in log


def test_a_daemon_whose_files_are_damaged_starts_all_the_same_and_tells_it(house: World) -> None:
    """What it noted for its next start, and what links have used of caps, as after a power cut."""
    text = SETTINGS.replace('"lt*"', '"lt*"\nmonthly_cap = "50GB"')
    words = ("run", str(house.settings(text)), "--state-directory", str(house.directory / "state"))
    with process(*house.command(*words)) as child:
        said_ready(child)
        stop(child, signal.SIGUSR1)
    kept = house.directory / "kept/usage.json"
    files = [*(house.directory / "state").glob("*.json"), kept]
    assert len(files) == 2
    for file in files:
        file.write_text("{")
    with process(*house.command(*words), stderr=subprocess.PIPE) as child:
        said_ready(child)
        assert {link["state"] for link in house.status().values()} == {"up"}
        stop(child)
        assert child.stderr is not None
        log = child.stderr.read()
    for file in files:
        assert file.with_name(f"{file.name}.broken").read_text() == "{"
        assert f"{file}: cannot be read" in log
