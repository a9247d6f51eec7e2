"""What experiment and demo with a home router claim, of readings that no machine gave; the files of such a router."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from experiments.home.events import Noticed, Wandered
from experiments.home.router import files
from experiments.home.showing import Shown, claims, summary
from experiments.home.traffic import Call, per_gigabyte
from experiments.scenarios.home import Home
from experiments.study.changes import orders
from experiments.study.readings import Point, Reading, Readings
from tests.unit.scenarios.made_up import SERIES, at, but, claims_test, judged, quoted, topology
from tests.unit.tributary.wireguard.test_enrolment import GIVEN
from tributary.settings.files import check
from tributary.wireguard.enrolment import Enrolment


def good(point: Point) -> Mapping[str, float]:
    tunnels = point["leg"] == "wireguard"
    if point["what"] in ("carrier", "silence"):
        gap = 0.2 if point["what"] == "carrier" else 12
        return {"udp_gap_s": gap if tunnels else 7, "tcp_gap_s": 0.6, "kept_address": 1}
    if point["what"] in ("waiting", "rates"):
        return {
            "idle_ms": 12,
            "loaded_ms": 120,
            "added_ms": 108 if point["what"] == "waiting" else 15,
            "bonded_mbps": 50,
        }
    if point["what"] in ("link", "tunnel"):
        return {"mbps": 400 if tunnels else 4000, "router_cpu_s_per_gb": 8 if tunnels else 0}
    if point["what"] == "revoked":
        return {"revoke_s": 0.3}
    bonded = 37 if point["what"] == "stripped" and not tunnels else 56
    return {"dsl_mbps": 38, "bonded_mbps": bonded, "sum_mbps": 57, "share_percent": bonded / 0.57, "seconds": 10}


def test_rates_cuts_and_waiting_are_judged() -> None:
    assert len(judged(Home, good)) == 4 + 2 + 2 * 4 + 2


def test_one_leg_over_two_links_alone_is_judged_quoted_and_drawn() -> None:
    (order,) = orders([Home()], ["legs=wireguard", "links=2"])
    assert len(order.points) == 1 + 3 + 3 + 2
    taken = Readings(Reading(point, 1, good(point), SERIES) for point in order.points)
    assert all(verdict.holds for verdict in order.judged(taken))
    assert "wireguard_vs_plain" not in {metric.name for metric in Home().quoted(taken)}
    figure = Figure()
    order.drawn(figure, taken)
    assert len(figure.axes) == 2


test_claims = claims_test(
    Home,
    good,
    at("leg=wireguard,links=3", "3 links are bonded (wireguard)", share_percent=94),
    at(
        "leg=wireguard,what=stripped",
        "2 links are bonded past a provider that strips MPTCP's option, too (wireguard)",
        share_percent=66,
    ),
    # A plain leg that outdoes its one link is not stripped.
    at("leg=plain,what=stripped", "where the plain leg has one link left", bonded_mbps=56),
    at("leg=wireguard,what=carrier", "a call goes on through a cut (carrier, wireguard)", udp_gap_s=1.5),
    at("leg=wireguard,what=silence", "a call goes on through a cut (silence, wireguard)", udp_gap_s=18),
    at("leg=wireguard,what=carrier", "with one address (carrier, wireguard)", kept_address=0),
    at("leg=plain,what=silence", "a download goes on through a cut (silence, plain)", tcp_gap_s=6),
    # A call that waits although the router knows the rates, and one that never waits.
    at("what=rates", "where the router knows the links' rates it does not", added_ms=60),
    at("what=waiting", "a call waits behind a download that fills a link", added_ms=5),
    panels=6,
)


def test_shares_gaps_and_what_a_tunnel_costs_are_quoted() -> None:
    assert (
        quoted(Home, but(good, {"leg": "plain", "what": "bonded"}, bonded_mbps=57)).items()
        >= {
            "wireguard_vs_plain": 56 / 57,
            "bonded_vs_tunnels": 56 / 57,
            "tunnel_vs_link": 0.1,
            "udp_gap_ms": 200,
            "silent_udp_gap_ms": 12_000,
            "revoke_s": 0.3,
            "tunnel_mbps": 400,
            "tunnel_router_cpu_s_per_gb": 8,
        }.items()
    )


GOOD = Shown(
    alone={"dsl": 38.0, "lte": 19.0},
    bonded={80: 56.0, 443: 55.0},
    stripped=55.0,
    cut=Noticed(0.2, 0.5, ["192.0.2.2"]),
    wandered=Wandered(4, 48.0, 0.3),
    knocked=[],
    revoked=0.3,
)
LINKS = topology(Home).links
ENROLMENT = check(GIVEN | {"gateway": "192.0.2.2"}, Enrolment, "test")


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
    found = per_gigabyte({"router": 2.0, "gateway": 1.0, "machine": 8.0}, 500_000_000)
    assert found == {"router_cpu_s_per_gb": 4, "gateway_cpu_s_per_gb": 2, "machine_cpu_s_per_gb": 16}


def test_a_router_has_the_files_of_its_card() -> None:
    plain, tunnels = files(LINKS, None), files(LINKS, ENROLMENT)
    assert tomllib.loads(plain["converter.toml"])["gateway"]["address"] == "192.0.2.2:5124"
    assert tomllib.loads(tunnels["converter.toml"])["gateway"]["address"] == "10.84.0.1:5124"
    settings = tomllib.loads(tunnels["router.toml"])
    assert list(settings["wan"]) == ["dsl", "lte", "sat"]
    assert len(settings["enrolment"]) == 1 and settings["tunnels"]["prefix"]
    assert "enrolment" not in tomllib.loads(plain["router.toml"])
