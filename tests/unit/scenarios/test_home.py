"""What the experiment with a home router claims, of readings that no machine gave."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from experiments.scenarios.home import Home
from experiments.study.changes import orders
from experiments.study.readings import Point, Reading, Readings
from tests.unit.scenarios.made_up import SERIES, but, claims_test, judged, quoted


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


WIREGUARD, PLAIN = {"leg": "wireguard"}, {"leg": "plain"}
test_claims = claims_test(
    Home,
    good,
    (but(good, WIREGUARD | {"links": "3"}, share_percent=94), "3 links are bonded (wireguard)"),
    (
        but(good, WIREGUARD | {"what": "stripped"}, share_percent=66),
        "2 links are bonded past a provider that strips MPTCP's option, too (wireguard)",
    ),
    # A plain leg that outdoes its one link is not stripped.
    (but(good, PLAIN | {"what": "stripped"}, bonded_mbps=56), "where the plain leg has one link left"),
    (
        but(good, WIREGUARD | {"what": "carrier"}, udp_gap_s=1.5),
        "a call goes on through a cut (carrier, wireguard)",
    ),
    (but(good, WIREGUARD | {"what": "silence"}, udp_gap_s=18), "a call goes on through a cut (silence, wireguard)"),
    (but(good, WIREGUARD | {"what": "carrier"}, kept_address=0), "with one address (carrier, wireguard)"),
    (but(good, PLAIN | {"what": "silence"}, tcp_gap_s=6), "a download goes on through a cut (silence, plain)"),
    # A call that waits although the router knows the rates, and one that never waits.
    (but(good, {"what": "rates"}, added_ms=60), "where the router knows the links' rates it does not"),
    (but(good, {"what": "waiting"}, added_ms=5), "a call waits behind a download that fills a link"),
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
