"""What the experiment with a home router claims, of readings that no machine gave."""

from collections.abc import Mapping

from experiments.scenarios import home
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, drawn, failed, judged, quoted

SCENARIO = home.SCENARIO


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


def test_tunnels_that_bond_all_and_keep_calls_hold_every_claim() -> None:
    assert failed(SCENARIO, good) == []
    assert len(judged(SCENARIO, good)) == 4 + 2 + 2 * 4 + 2
    assert len(drawn(SCENARIO, good).axes) == 6


def test_what_is_not_bonded_is_seen() -> None:
    assert failed(SCENARIO, but(good, {"leg": "wireguard", "links": "3"}, share_percent=94)) == [
        "3 links are bonded (wireguard)"
    ]
    stripped = but(good, {"leg": "wireguard", "what": "stripped"}, share_percent=66)
    assert failed(SCENARIO, stripped) == [
        "2 links are bonded past a provider that strips MPTCP's option, too (wireguard)"
    ]


def test_a_plain_leg_that_outdoes_its_one_link_is_not_stripped() -> None:
    claims = failed(SCENARIO, but(good, {"leg": "plain", "what": "stripped"}, bonded_mbps=56))
    assert claims == ["where the plain leg has one link left"]


def test_a_call_that_waits_or_is_known_by_two_addresses_and_a_download_that_waits_are_seen() -> None:
    for how, gap in (("carrier", 1.5), ("silence", 18)):
        assert failed(SCENARIO, but(good, {"leg": "wireguard", "what": how}, udp_gap_s=gap)) == [
            f"a call goes on through a cut ({how}, wireguard)"
        ]
    assert failed(SCENARIO, but(good, {"leg": "wireguard", "what": "carrier"}, kept_address=0)) == [
        "with one address (carrier, wireguard)"
    ]
    assert failed(SCENARIO, but(good, {"leg": "plain", "what": "silence"}, tcp_gap_s=6)) == [
        "a download goes on through a cut (silence, plain)"
    ]


def test_a_call_that_waits_although_the_router_knows_the_rates_is_seen_and_so_is_one_that_never_waits() -> None:
    assert failed(SCENARIO, but(good, {"what": "rates"}, added_ms=60)) == [
        "where the router knows the links' rates it does not"
    ]
    assert failed(SCENARIO, but(good, {"what": "waiting"}, added_ms=5)) == [
        "a call waits behind a download that fills a link"
    ]


def test_shares_gaps_and_what_a_tunnel_costs_are_quoted() -> None:
    assert (
        quoted(SCENARIO, but(good, {"leg": "plain", "what": "bonded"}, bonded_mbps=57)).items()
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
