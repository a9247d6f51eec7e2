import os
import re
import shutil
import signal
import time
from typing import Any

import pytest

from tests.netns.connections import TCP
from tests.netns.overlay_world import ETCD, Overlay, full, outcome, until
from tests.netns.world import eventually, listener_at, needs, program
from tributary.settings.errors import CommandError, Exit

pytestmark = needs("etcd", "curl")

NODES = ("n1", "n2", "n3", "n4")


@pytest.fixture
def overlay(empty: Overlay) -> Overlay:
    """Four nodes and a controller, every table complete."""
    empty.etcd()
    empty.controller("c1")
    for number, node in enumerate(NODES, start=11):
        empty.agent(node, number)
    until(lambda: empty.egresses() == full(*NODES))
    return empty


def test_each_ingress_has_a_table_and_at_rest_nothing_is_written(overlay: Overlay) -> None:
    until(lambda: [node["delays"] for node in overlay.status()["nodes"]] == [3] * 4)
    status = overlay.status()
    assert (status["controller"], status["waiting"], status["refused"]) == ("c1", [], [])
    assert [node["address"] for node in status["nodes"]] == [f"127.0.0.{number}:5460" for number in range(11, 15)]
    assert [(table["ingress"], table["egresses"]) for table in status["tables"]] == [(node, 3) for node in NODES]
    measured = overlay.values("delays/").values()
    assert all(0 < us < 20_000 for each in measured for us in each["round_trip_us"].values())
    until(lambda: is_at_rest(overlay))  # delays of a busy machine change by much, and are written
    assert overlay.found("health/") == {}


def is_at_rest(overlay: Overlay) -> bool:
    """Whether no delay is written in 15 rounds of pings."""
    delays = overlay.found("delays/")
    time.sleep(3)
    return overlay.found("delays/") == delays


def test_a_dead_node_is_out_within_3_s_and_is_used_again_when_it_is_back(overlay: Overlay) -> None:
    overlay.kill("n4")
    seconds = until(lambda: overlay.egresses() == full("n1", "n2", "n3"))
    print(f"n4 was out of all tables after {seconds:.2f} s")
    # The lease lasts 2 s, etcd looks every half of a second; the rest is for a busy machine.
    assert seconds < 5
    overlay.agent("n4", 14)
    until(lambda: overlay.egresses() == full(*NODES))


def test_a_node_that_is_told_to_end_is_out_at_once(overlay: Overlay) -> None:
    assert overlay.processes["n4"].stop() == 0
    assert "n4" not in overlay.found("nodes/") and "n4" not in overlay.found("delays/")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["gone", "hanging"])
def test_a_converter_that_does_not_answer_is_in_no_chain_within_3_s(how: signal.Signals, overlay: Overlay) -> None:
    with overlay.silent_converter("n4", 14, how):
        seconds = until(lambda: not any("n4" in table["chains"] for table in overlay.tables().values()))
        print(f"n4 was in no chain after {seconds:.2f} s")
        # 2.7 s at most on a calm machine (overlay/control/src/converter_check.rs); the rest is for a busy one.
        assert seconds < 5
        until(lambda: overlay.status()["nodes"][3]["converter_silent"])
        assert overlay.status()["nodes"][3]["converter"] is None
        assert overlay.egresses()["n4"] == {"n1", "n2", "n3"}, "it is an ingress still"
    until(lambda: overlay.egresses() == full(*NODES))
    until(lambda: not overlay.status()["nodes"][3]["converter_silent"])


def test_pressure_is_published_when_it_has_changed_by_much(overlay: Overlay) -> None:
    overlay.press("n1", 35.5)
    until(lambda: overlay.status()["nodes"][0]["pressure_percent"] == 35)
    published = overlay.found("health/")["n1"]
    for percent in (44, 26):
        overlay.press("n1", percent)
        time.sleep(3)  # it is read every two
        assert overlay.found("health/")["n1"] == published
    overlay.press("n1", 25)
    until(lambda: overlay.status()["nodes"][0]["pressure_percent"] == 25)


def test_a_second_agent_of_the_same_name_waits(overlay: Overlay) -> None:
    second = overlay.tributary("again", "agent", "n1", "--address", "127.0.0.20:5460", "--interval-ms", "200")
    until(lambda: "another agent is n1" in second.output())
    assert overlay.values("nodes/")["n1"]["address"] == "127.0.0.11:5460"
    overlay.kill("n1")
    until(lambda: overlay.values("nodes/").get("n1") == {"address": "127.0.0.20:5460"})


def test_a_second_ingress_of_the_same_name_leaves_the_egresses_of_the_first(empty: Overlay) -> None:
    empty.etcd()
    for name, number, egress in (("first", 11, "B"), ("second", 12, "C")):
        egresses = empty.node.write(f"{name}.egresses", f"203.0.113.0/24 {egress}\n")
        files = ["--egresses", str(egresses), "--routes", str(egresses.with_suffix(".routes")), "--reload", "true"]
        address = f"127.0.0.{number}:5460"
        empty.tributary(name, "agent", "A", "--address", address, *files)
        until(lambda: "A" in empty.found("routes/"))
    published = empty.found("egresses/")
    second = empty.processes["second"]
    until(lambda: second.output().count("another agent is A") >= 2)
    assert second.stop() == 0
    assert empty.found("egresses/") == published
    assert set(empty.found("routes/")) == {"A"}


def test_another_controller_takes_over(overlay: Overlay) -> None:
    overlay.controller("c2")
    until(lambda: overlay.status()["waiting"] == ["c2"])
    before = overlay.tables()
    overlay.kill("c1")
    until(lambda: overlay.status()["controller"] == "c2")
    until(lambda: overlay.status()["computed_s"] is not None)
    assert overlay.egresses() == full(*NODES)
    overlay.processes["n2"].stop()
    until(lambda: overlay.egresses() == full("n1", "n3", "n4"))
    assert all(table["version"] > before[ingress]["version"] for ingress, table in overlay.tables().items())


def test_all_go_on_when_etcd_is_back(overlay: Overlay) -> None:
    overlay.kill("etcd")
    overlay.kill("n3")
    time.sleep(5)
    assert all(overlay.processes[each].popen.poll() is None for each in ("c1", "n1", "n2", "n4"))
    overlay.etcd()
    until(lambda: overlay.egresses() == full("n1", "n2", "n4") and overlay.status()["controller"] == "c1")
    overlay.agent("n3", 13)
    until(lambda: overlay.egresses() == full(*NODES))


def test_a_connection_to_a_peers_converter_tells_the_delay_where_no_ping_is_answered(empty: Overlay) -> None:
    empty.etcd()
    empty.put("nodes/B", {"address": "127.0.0.12:5460", "converter": "127.0.0.12:5124"})
    empty.agent("n1", 11)
    connection = empty.node.start("talk", program("talk", "127.0.0.12", "5124"))
    until(lambda: "B" in empty.round_trips("delays/", "n1"))
    assert 0 < empty.round_trips("delays/", "n1")["B"] < 20_000
    connection.stop()
    until(lambda: empty.round_trips("delays/", "n1") == {})


def test_nodes_that_measure_only_some_peers_have_chains_to_all_others_by_estimates(empty: Overlay) -> None:
    names = [f"n{number}" for number in range(11, 21)]
    empty.etcd()
    empty.controller("c1")
    # Where no agent is.
    empty.put("nodes/dead", {"address": "127.0.0.99:5460", "converter": "127.0.0.99:5124"})
    for number, node in enumerate(names, start=11):
        empty.agent(node, number, "--peers", "4")

    def chains() -> dict[str, set[str]]:
        return {ingress: egresses for ingress, egresses in empty.egresses().items() if ingress != "dead"}

    until(lambda: chains() == full(*names))

    def published() -> list[dict[str, Any]]:
        return [*empty.values("delays/").values()]

    until(lambda: all(each.get("silent") == ["dead"] for each in published()))
    until(lambda: all(3 <= len(each["round_trip_us"]) <= 4 for each in published()))
    assert len(published()) == 10 and all(each["only_some"] for each in published())
    nodes = {node["name"]: node for node in empty.status()["nodes"]}
    # 45 pairs, of which each node measures 4 at most.
    assert sum(nodes[name]["estimated"] for name in names) >= 2 * (45 - 40)
    assert nodes["dead"]["estimated"] == 0
    assert chains() == full(*names)


SERVERS, PUBLIC = "127.0.0.48/28", "198.51.100.0/24"


def to_servers(overlay: Overlay, node: str) -> dict[str, int]:
    """What it published, by network."""
    return overlay.round_trips("servers/", node)


def test_candidates_connect_to_the_server_that_the_operator_names_and_to_no_other(empty: Overlay) -> None:
    """A public address, and a private one that the operator allows. What no converter would connect to is refused."""
    empty.etcd()
    probe, inside = "198.51.100.50:443", "10.77.0.1:443"
    for each in (probe, inside):
        empty.node.ip("address", "add", each.partition(":")[0], "dev", "lo")
    server = empty.node.start("accept", program("accept", *probe.split(":")))
    private = empty.node.start("accept-private", program("accept", *inside.split(":")))
    loopback = empty.node.start("accept-loopback", program("accept", "127.0.0.70", "443"))
    several = {"node": "n1", "or": ["n2"], "rounds": 5}
    line = {"to": PUBLIC, "probe": probe, **several}
    unprobed = {"to": "127.0.0.80/28", **several}
    forbidden = {"to": "127.0.0.64/28", "probe": "127.0.0.70:443", **several}
    opened = {"to": "10.77.0.0/16", "probe": inside, **several}
    empty.put("egresses/X", [line, unprobed, forbidden, opened])
    empty.agent("n1", 11, "--allow", "10.77.0.0/16")
    empty.agent("n2", 12)
    empty.agent("n3", 13)
    until(lambda: len(to_servers(empty, "n1")) == 2 and PUBLIC in to_servers(empty, "n2"))
    assert 0 < to_servers(empty, "n1")[PUBLIC] < 500_000
    assert {*to_servers(empty, "n1")} == {PUBLIC, "10.77.0.0/16"}
    assert [*to_servers(empty, "n2")] == [PUBLIC]
    assert to_servers(empty, "n3") == {}
    for node, refused in (("n1", ["127.0.0.70"]), ("n2", ["10.77.0.1", "127.0.0.70"])):
        lines = re.findall(r"([\d.]+):443 is not connected to: accepted: ", empty.processes[node].output())
        assert sorted(lines) == refused
    assert "accepted" not in loopback.output()
    private.stop()
    # One connection in five looks of 200 ms, of each of the two.
    before = server.output().count("accepted")
    time.sleep(5)
    assert 1 <= server.output().count("accepted") - before <= 12
    assert "sent something" not in server.output()
    server.stop()
    until(lambda: to_servers(empty, "n1") == {} == to_servers(empty, "n2"))


def test_connections_to_servers_tell_how_far_they_are(empty: Overlay) -> None:
    empty.etcd()
    empty.put("egresses/X", [{"to": SERVERS, "node": "n1", "or": ["n2"], "rounds": 5}])
    empty.agent("n1", 11)
    connection = empty.node.start("talk", program("talk", "127.0.0.50", "443"))
    until(lambda: SERVERS in to_servers(empty, "n1"))
    assert 0 < to_servers(empty, "n1")[SERVERS] < 20_000
    connection.stop()


def test_a_table_that_etcd_refuses_costs_no_other_one(empty: Overlay) -> None:
    """A's egresses have so many lines with several nodes that its table is larger than what etcd takes."""
    empty.etcd("--max-request-bytes", "8192")
    networks = [f"10.0.{number}.0/24" for number in range(100)]
    empty.measured("A", B=20, C=12)
    empty.measured("B", C=9)
    empty.measured("C")
    empty.put("servers/B", {"round_trip_us": dict.fromkeys(networks, 8000)})
    empty.controller("c1")
    until(lambda: empty.egresses() == full("A", "B", "C"))
    before = empty.tables()
    empty.put("egresses/A", [{"to": network, "node": "B", "or": ["C"], "rounds": 5} for network in networks])
    (refused,) = eventually(empty.refusals)
    assert refused.startswith("tributary/overlay/tables/A: etcd: request is too large: accepted: fewer lines")
    empty.measured("D", C=5)
    until(lambda: empty.egresses() == full("A", "B", "C", "D") | {"A": {"B", "C"}})
    assert empty.tables()["A"] == before["A"]
    empty.put("egresses/A", [])
    until(lambda: empty.egresses() == full("A", "B", "C", "D") and not empty.refusals())


def test_an_etcd_without_room_is_named_and_what_helps(empty: Overlay) -> None:
    empty.etcd("--quota-backend-bytes", str(1 << 20))
    with pytest.raises(CommandError):
        for _ in range(100):
            empty.put("filler", "x" * 60_000)
    controller = empty.tributary("c1", "controller", "c1", "--endpoints", ETCD)
    until(lambda: "etcd has no room left" in controller.output())
    assert "--auto-compaction-mode periodic" in controller.output()
    assert "etcd has no room left" in empty.refusals()[0]


def test_a_member_that_does_not_answer_costs_less_than_a_lease_lasts(empty: Overlay) -> None:
    """Two of three are there and say nothing."""
    empty.etcd()
    silent = [listener_at(empty.node, 2379, f"127.0.0.{number}", TCP) for number in (60, 61)]
    urls = [f"http://127.0.0.{number}:2379" for number in (60, 61)]
    for members in ([*urls, ETCD], [ETCD, *urls], [urls[0], ETCD, urls[1]]):
        begun = time.monotonic()
        assert empty.asked("status", "--endpoints", ",".join(members))["nodes"] == []
        assert time.monotonic() - begun < 2
    for each in silent:
        each.close()


def test_a_controller_without_endpoints_has_an_etcd_of_its_own(empty: Overlay) -> None:
    data = empty.node.directory / "own"
    first = empty.tributary("c1", "controller", "c1", "--data", str(data))
    until(lambda: "c1 is elected" in first.output())
    empty.agent("n1", 11)
    empty.agent("n2", 12)
    until(lambda: empty.egresses() == full("n1", "n2"))
    assert data.stat().st_mode & 0o777 == 0o700

    code, output = empty.refused("controller", "c2", "--data", str(data))
    assert code == Exit.IN_USE
    assert "127.0.0.1:2379, where etcd should answer: Address already in use" in output

    version = empty.tables()["n1"]["version"]
    empty.kill("c1")
    until(lambda: len(empty.node.pids()) == 4)  # the agents and their converters: its etcd went with it
    third = empty.tributary("c3", "controller", "c3", "--data", str(data))
    until(lambda: "c3 is elected" in third.output())
    until(lambda: empty.egresses() == full("n1", "n2") and len(empty.found("nodes/")) == 2)
    assert empty.tables()["n1"]["version"] >= version
    os.killpg(third.popen.pid, signal.SIGINT)  # as Ctrl-C does
    assert third.popen.wait(30) == 0
    assert len(empty.node.pids()) == 4


def test_a_controller_that_finds_no_etcd_says_so_and_makes_nothing(empty: Overlay) -> None:
    data, programs = empty.node.directory / "own", empty.node.directory / "programs"
    programs.mkdir()
    setpriv = shutil.which("setpriv")
    assert setpriv is not None
    (programs / "setpriv").symlink_to(setpriv)
    command = [str(empty.program), "controller", "c1", "--data", str(data)]
    code, output = outcome(empty.start("c1", ["/usr/bin/env", f"PATH={programs}", *command]))
    assert code == Exit.UNAVAILABLE
    why = "etcd: not found: install Debian's etcd-server, or name members by --endpoints"
    assert output == f"tributary-overlay: {why}\n"
    assert not data.exists()


AGENT = "agent a --address 127.0.0.1:5460"


@pytest.mark.parametrize(
    ("arguments", "accepted"),
    [
        (f"{AGENT} --routes /run/routes", "--egresses <FILE>"),
        (f"{AGENT} --peers 3", "3 is not in 4..=1000"),
        (f"controller a --endpoints {ETCD} --port 5", "cannot be used with"),
    ],
)
def test_wrong_arguments(arguments: str, accepted: str, empty: Overlay) -> None:
    code, output = empty.refused(*arguments.split())
    assert code == Exit.USAGE
    assert accepted in output
