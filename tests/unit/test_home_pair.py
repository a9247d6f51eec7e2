"""The pure parts of a home router and its gateway on this machine: the demo's verdict, files."""

import socket
import tomllib
from contextlib import closing
from dataclasses import replace

import pytest

from experiments.home.events import Noticed, Wandered
from experiments.home.router import files
from experiments.home.showing import Shown, claims, summary
from experiments.home.traffic import Call, Cost
from experiments.probes.knock import knock
from experiments.testbed.profile import PROFILES
from experiments.testbed.topology import Profile, Topology
from tributary.settings.files import load
from tributary.wireguard.enrolment import Enrolment

GOOD = Shown(
    alone={"dsl": 38.0, "lte": 19.0},
    bonded={80: 56.0, 443: 55.0},
    stripped=55.0,
    cut=Noticed(0.2, 0.5, ["192.0.2.2"]),
    wandered=Wandered(4, 48.0, 0.3),
    knocked=[],
    revoked=0.3,
)
LINKS = Topology.of(load(PROFILES / "home.toml", Profile)).links
ENROLMENT = Enrolment.model_validate(
    {
        "gateway": "192.0.2.2",
        "public_key": 43 * "A" + "=",
        "secret": 43 * "A" + "=",
        "addresses": "10.84.0.16/28",
        "inside": "10.84.0.1",
    }
)


def test_a_good_run_holds_every_claim_of_the_demo() -> None:
    assert [claim.claim for claim in claims(GOOD) if not claim.holds] == []
    assert summary(GOOD)["bonded_mbps"] == {"80": 56.0, "443": 55.0}


@pytest.mark.parametrize(
    ("shown", "broken"),
    [
        (replace(GOOD, bonded={80: 56.0, 443: 40.0}), "a device's download from port 443 takes both links"),
        (replace(GOOD, stripped=38.0), "so does one while a provider takes MPTCP's option out"),
        (replace(GOOD, cut=Noticed(1.2, 0.5, ["192.0.2.2"])), "a call goes on when its link is cut"),
        (replace(GOOD, cut=Noticed(0.2, 0.5, ["192.0.2.2", "198.51.100.2"])), "and the other end knows the caller"),
        (replace(GOOD, cut=Noticed(0.2, 6.0, ["192.0.2.2"])), "a download goes on as well"),
        (replace(GOOD, wandered=Wandered(4, 37.0, 6.0)), "4 other addresses of a link break nothing"),
        (replace(GOOD, knocked=["tcp/22"]), "ports of the gateway that answer a stranger"),
        (replace(GOOD, revoked=6.0), "a router that is shut out is out"),
    ],
)
def test_a_claim_of_the_demo_that_is_not_met_fails(shown: Shown, broken: str) -> None:
    (failed,) = [claim.claim for claim in claims(shown) if not claim.holds]
    assert failed.startswith(broken)


def test_a_gap_counts_from_the_cut_to_the_end_of_the_watch() -> None:
    call = Call([(0.0, "a"), (9.0, "a"), (10.1, "a"), (10.5, "b"), (12.0, "a")])
    assert call.gap(10.0, 12.5) == pytest.approx(1.5)
    assert call.gap(13.0, 20.0) == pytest.approx(7.0)
    assert call.addresses == ["a", "b"]
    assert call.last_by("b") == 10.5


def test_processor_time_is_for_each_gigabyte() -> None:
    found = Cost(2.0, 1.0, 8.0).per_gigabyte(500_000_000)
    assert found == {"router_cpu_s_per_gb": 4, "gateway_cpu_s_per_gb": 2, "machine_cpu_s_per_gb": 16}


def test_a_router_has_the_files_of_its_card() -> None:
    plain, tunnels = files(LINKS, None), files(LINKS, ENROLMENT)
    assert tomllib.loads(plain["converter.toml"])["gateway"]["address"] == "192.0.2.2:5124"
    assert tomllib.loads(tunnels["converter.toml"])["gateway"]["address"] == "10.84.0.1:5124"
    settings = tomllib.loads(tunnels["router.toml"])
    assert list(settings["wan"]) == ["dsl", "lte", "sat"]
    assert len(settings["enrolment"]) == 1 and settings["tunnels"]["prefix"]
    assert "enrolment" not in tomllib.loads(plain["router.toml"])


def test_who_refuses_and_who_listens_answer_a_stranger() -> None:
    with closing(socket.create_server(("127.3.0.1", 0))) as listener:
        port = f"tcp/{listener.getsockname()[1]}"
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as silent:
            silent.bind(("127.3.0.1", 0))
            dumb = f"udp/{silent.getsockname()[1]}"
            assert knock("127.3.0.1", 0.1, [port, "tcp/9", "udp/9", dumb]) == [port, "tcp/9", "udp/9"]
