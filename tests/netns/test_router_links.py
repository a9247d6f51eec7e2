import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.netns.router_world import BOTH, DSL, LTE, PROBED, SERVER_6, SETTINGS, World, world
from tests.netns.world import eventually, in_namespace, program, ready

pytestmark = pytest.mark.slow

BACK = 2.0
"""Seconds in which a lost subflow is there again."""


def test_a_session_by_ipv6_gets_a_subflow_over_each_link_as_well(house: World) -> None:
    with house.daemon(), house.transfer(SERVER_6):
        house.has_subflows("fd00:1::2", "fd00:2::2")


@pytest.mark.parametrize(
    ("link", "own", "other"), [("dsl", DSL, LTE), ("lte", LTE, DSL)], ids=["the first subflow's link", "the other link"]
)
@pytest.mark.calm
def test_a_cut_link_is_taken_out_the_transfer_goes_on_and_the_link_comes_back(
    house: World, link: str, own: str, other: str
) -> None:
    with house.bonded() as transfer:
        house.cut(link)
        house.has_subflows(other)
        eventually(lambda: own not in {*house.endpoints(), *house.rules()})
        assert house.status()[link]["reason"] == "no carrier"
        assert transfer.goes_on()
        house.restore(link)
        start = time.monotonic()
        house.has_subflows(*BOTH)
        assert time.monotonic() - start < BACK
        assert transfer.goes_on()


@pytest.mark.smoke
def test_a_link_that_is_switched_off_here_is_taken_out_too(house: World) -> None:
    with house.bonded() as transfer:
        house.on_router("ip link set lte down")
        house.has_subflows(DSL)
        assert house.status()["lte"]["reason"] == "its interface is switched off"
        house.on_router("ip link set lte up")
        # Its default route went with it, and comes with the next lease.
        house.on_router("ip route add default via 10.2.0.1 dev lte proto dhcp metric 1025")
        house.has_subflows(*BOTH)
        assert transfer.goes_on()


def test_a_session_moves_to_a_links_new_address(house: World) -> None:
    with house.bonded() as transfer:
        house.on_router("ip addr del 10.2.0.2/24 dev lte")
        house.lease("lte", "10.2.0.77")
        house.has_subflows(DSL, "10.2.0.77")
        assert {LTE} & {*house.rules(), *house.endpoints()} == set()
        assert {"10.2.0.77"} <= house.rules() & set(house.endpoints())
        assert transfer.goes_on()


def test_a_new_gateway_is_followed_and_breaks_no_subflow(house: World) -> None:
    house.on_provider("ip addr add 10.2.0.254/24 dev isp-lte")
    with house.bonded() as transfer:
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
        house.has_subflows(*BOTH)
        house.on_router("ip link delete lte")
        house.has_subflows(DSL)
        eventually(lambda: LTE not in {*house.rules(), *house.endpoints()})
        house.add_link("lte")
        house.on_router("ip link set lte down")
        house.on_router("ip link set lte name lt5")
        house.on_router("ip link set lt5 up")
        house.on_router("ip route add default via 10.2.0.1 dev lt5 proto dhcp metric 1025")
        house.has_subflows(*BOTH)
        assert house.endpoints()[LTE]["dev"] == "lt5"
        assert transfer.goes_on()


def test_a_sessions_first_subflow_that_the_network_resets_comes_back(house: World) -> None:
    """As the joined one does: see test_it_needs_one_capability."""
    with house.bonded() as transfer:
        house.on_provider(f"ss -K -tn dst {DSL}")
        eventually(lambda: house.subflows() != BOTH)
        house.has_subflows(*BOTH)
        assert transfer.goes_on()


def test_joins_that_the_network_refuses_are_tried_again(house: World) -> None:
    house.filter("in ip saddr 10.2.0.2 reject with tcp reset")
    with house.daemon(), house.transfer():
        first = house.endpoints()[LTE]["id"]
        eventually(lambda: house.endpoints().get(LTE, {"id": first})["id"] != first)
        house.on_provider("nft delete table inet filter")
        house.has_subflows(*BOTH)


def test_a_link_whose_path_is_dead_is_taken_out_by_probes_and_brought_back(house: World) -> None:
    with house.daemon(PROBED), house.transfer() as transfer:
        house.has_subflows(*BOTH)
        eventually(lambda: house.status()["dsl"]["probe"]["rtt_ms"] is not None)
        house.filter("in iifname isp-dsl drop")
        eventually(lambda: house.status()["dsl"]["reason"] == "the probed target does not answer")
        assert DSL not in house.endpoints()
        assert DSL in house.rules()
        assert "dev dsl" not in house.on_router("ip route show default proto 84")
        assert transfer.goes_on()
        house.on_provider("nft delete table inet filter")
        house.has_subflows(*BOTH)
        assert house.status()["dsl"]["state"] == "up"


@pytest.mark.parametrize("name", ["tb9", "scout", "delay"])
def test_a_link_is_probed_whatever_it_is_called(house: World, name: str) -> None:
    """A link that is called as the tunnel to an earlier gateway is, or as what other probes are for."""
    with house.daemon(PROBED.replace("[wan.dsl]", f"[wan.{name}]")):
        eventually(lambda: house.status()[name]["probe"]["rtt_ms"] is not None)
        house.filter("in iifname isp-dsl drop")
        eventually(lambda: house.status()[name]["reason"] == "the probed target does not answer")


def test_metrics_are_served_where_the_settings_say_and_a_taken_port_stops_no_link(house: World) -> None:
    def metrics(port: int) -> str:
        return house.on_router(f"curl -s http://127.0.0.1:{port}/metrics", check=False)

    def serve_at(address: str) -> None:
        file.write_text(f'{PROBED}[metrics]\naddress = "{address}"\n')
        child.send_signal(signal.SIGHUP)

    file = house.settings(text := PROBED + '[metrics]\naddress = "127.0.0.1:9466"\n')
    with house.daemon(text, stderr=subprocess.PIPE) as child:
        eventually(lambda: 'tributary_router_link_rtt_seconds{link="lte"}' in metrics(9466))
        house.cut("lte")
        eventually(lambda: 'tributary_router_link_up{link="lte"} 0.0' in metrics(9466))
        page = metrics(9466)
        assert 'tributary_router_link_up{link="dsl"} 1.0' in page and DSL not in page
        serve_at("0.0.0.0:9467")
        eventually(lambda: metrics(9467) != "")
        assert metrics(9466) == ""
        with ready(*in_namespace(house.router, *program("numbered_blocks", "9468"))):
            serve_at("127.0.0.1:9468")
            eventually(lambda: metrics(9467) == "")
            assert house.status()["dsl"]["state"] == "up"
        serve_at("127.0.0.1:9466")
        eventually(lambda: metrics(9466) != "")
        child.stop()
        assert "metrics not served" in child.complaints()


def test_an_ipv4_default_route_by_an_ipv6_neighbour_leads_out(house: World) -> None:
    house.on_router("ip -4 route replace default via inet6 fd00:2::1 dev lte proto dhcp metric 1025")
    with house.daemon(PROBED), house.transfer():
        house.has_subflows(*BOTH)
        assert "via inet6 fd00:2::1" in house.on_router("ip route show default proto 84")
        eventually(lambda: house.status()["lte"]["probe"]["rtt_ms"] is not None)


def test_a_link_is_found_by_an_alternative_name_of_its_interface(house: World) -> None:
    house.on_router("ip link property add dev lte altname enx001122334455")
    with house.daemon(SETTINGS.replace("lt*", "enx001122334455")), house.transfer():
        house.has_subflows(*BOTH)
        assert house.status()["lte"]["interface"] == "lte"


def test_a_point_to_point_link_without_a_gateway_is_used(house: World) -> None:
    # As pppd leaves it: the other end's address, and a default route into the interface.
    house.on_router("ip addr del 10.2.0.2/24 dev lte")
    house.on_router("ip addr add 10.2.0.2 peer 10.2.0.1 dev lte")
    house.on_router("ip route replace default dev lte proto static metric 1025")
    house.on_provider("sysctl -qw net.ipv4.conf.isp-lte.proxy_arp=1")
    with house.bonded():
        assert house.status()["lte"]["gateways"][0] == "point-to-point"


def test_a_step_that_the_kernel_refuses_is_tried_again_and_the_rest_is_done(house: World) -> None:
    house.on_router("ip route add default via 10.1.0.1 dev dsl metric 2")
    with house.daemon():
        assert set(BOTH) <= set(house.endpoints())
        assert "proto 84" not in house.on_router("ip route show default metric 2")
        house.on_router("ip route del default via 10.1.0.1 dev dsl metric 2")
        eventually(lambda: "dev lte proto 84" in house.on_router("ip route show default metric 2"))


def test_a_flapping_link_ends_as_it_should_and_a_transfer_outlives_it(house: World) -> None:
    with house.bonded() as transfer:
        for _ in range(5):
            house.cut("dsl")
            time.sleep(0.1)
            house.restore("dsl")
            time.sleep(0.1)
        house.has_subflows(*BOTH)
        assert transfer.goes_on()
        eventually(lambda: house.status()["dsl"]["state"] == "up")


def test_a_daemon_whose_files_are_damaged_starts_all_the_same_and_tells_it(house: World) -> None:
    """What it noted for its next start, and what links have used of caps, as after a power cut."""
    text = SETTINGS.replace('"lt*"', '"lt*"\nmonthly_cap = "50GB"')
    with house.daemon(text) as child:
        child.stop(signal.SIGUSR1)
    files = [*house.state.glob("*.json"), house.directory / "kept/usage.json"]
    assert len(files) == 2
    for file in files:
        file.write_text("{")
    with house.daemon(text, stderr=subprocess.PIPE) as child:
        assert {link["state"] for link in house.status().values()} == {"up"}
        child.stop()
        log = child.complaints()
    for file in files:
        assert file.with_name(f"{file.name}.broken").read_text() == "{"
        assert f"{file}: cannot be read" in log
