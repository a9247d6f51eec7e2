from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

from gateway.counters import NO_TRAFFIC, counted
from gateway.peers import by_key, difference, peers, remaining, tunnels
from gateway.state import State
from gateway.tunnels import describe, ended_rotations
from tests.unit.gateway.house import LANS, NETWORK, heard, key, of, router
from tributary.wireguard.interface import Peer

BERLIN, PARIS = of("berlin", 1), of("paris", 2)


def test_each_tunnel_is_a_peer_with_one_address_that_is_never_called_also_while_a_router_rotates() -> None:
    made = peers(BERLIN)
    assert len(made) == 9
    assert made[0] == Peer(key(1, 0), (IPv4Network("10.84.0.17/32"),))
    assert made[8] == Peer(key(1, 8), (IPv4Network("10.84.0.25/32"),))
    both = tunnels({"berlin": router(1, following=2)}, NETWORK)
    assert [tunnel.key for tunnel in both] == [tunnel.key for tunnel in (*BERLIN, *PARIS)]
    assert {tunnel.router for tunnel in both} == {"berlin"}


def test_a_lan_is_reached_by_the_tunnel_for_everything_else_and_its_connections_end_with_the_router() -> None:
    made = of("berlin", 1, LANS)
    assert peers(made)[0].allowed == (IPv4Network("10.84.0.17/32"), IPv6Network("2001:db8:1:1::/64"))
    assert peers(made)[1].allowed == (IPv4Network("10.84.0.18/32"),)
    assert [each.lan for each in of("far", 4095, IPv6Network("2001:db8::/56"))] == [None] * 9
    begun = difference(made, [heard(tunnel) for tunnel in BERLIN])
    assert (begun.missing, begun.released) == ((made[0],), [])
    gone = difference([], [heard(tunnel) for tunnel in made])
    assert gone.released == [IPv4Network("10.84.0.16/28"), IPv6Network("2001:db8:1:1::/64")]


def test_a_lan_goes_over_to_the_next_keys_when_the_rotation_ends_and_keeps_its_connections() -> None:
    lan = IPv6Network("2001:db8:1:1::/64")
    renewed = router(1, following=2)
    assert renewed.next is not None
    renewed = renewed.model_copy(update={"next": renewed.next.model_copy(update={"lan": 1})})
    before = tunnels({"berlin": renewed}, NETWORK, LANS)
    assert {tunnel.key: tunnel.lan for tunnel in before if tunnel.slot == 0} == {key(1): lan, key(2): None}
    after = tunnels({"berlin": renewed.rotated()}, NETWORK, LANS)
    assert {tunnel.key: tunnel.lan for tunnel in after if tunnel.slot == 0} == {key(2): lan}
    there = [heard(tunnel) for tunnel in before]
    assert difference(after, there, [lan]).released == [IPv4Network("10.84.0.16/28")]
    assert difference(after, there).released == [IPv4Network("10.84.0.16/28"), lan]


def test_before_the_rules_are_loaded_who_is_there_as_wanted_remains_and_nobody_is_added() -> None:
    there = [heard(tunnel) for tunnel in (*BERLIN, *PARIS)]
    assert remaining([*PARIS, *of("rome", 3)], there) == list(PARIS)
    moved, lan = replace(BERLIN[0], address=PARIS[0].address), IPv6Network("2001:db8:1:2::/64")
    renumbered = replace(PARIS[0], lan=lan)
    assert remaining([moved, renumbered], [heard(tunnel) for tunnel in (*BERLIN, *PARIS)]) == [PARIS[0]]


def test_an_interface_that_is_right_is_left_alone_and_who_is_missing_comes_and_who_is_too_many_goes() -> None:
    change = difference(BERLIN, [heard(tunnel) for tunnel in reversed(BERLIN)])
    assert not change
    assert describe(change) == []
    change = difference(PARIS, [heard(tunnel) for tunnel in BERLIN])
    assert change.missing == tuple(PARIS)
    assert {peer.public_key for peer in change.unexpected} == {tunnel.key for tunnel in BERLIN}
    assert change.released == [IPv4Network("10.84.0.16/28")]
    assert describe(change) == ["paris: tunnels added", "10.84.0.16/28: removed"]


def test_a_wrong_address_is_put_right_and_one_that_sends_from_everywhere_goes_without_ending_all() -> None:
    wrong = replace(heard(BERLIN[0]), allowed=(IPv4Network("10.84.0.99/32"),))
    change = difference(BERLIN, [wrong, *map(heard, BERLIN[1:])])
    assert change.missing == (BERLIN[0],)
    assert change.released == [IPv4Network("10.84.0.96/28")]
    stranger = replace(heard(PARIS[0]), allowed=(IPv4Network("0.0.0.0/0"),))
    change = difference(BERLIN, [*map(heard, BERLIN), stranger])
    assert change.unexpected == (stranger,)
    assert change.released == []


def test_a_rotation_ends_when_any_of_the_new_keys_is_heard() -> None:
    routers = {"berlin": router(1, following=2), "rome": router(3)}
    assert ended_rotations(routers, [heard(tunnel, 5.0) for tunnel in BERLIN]) == []
    assert ended_rotations(routers, [heard(tunnel) for tunnel in PARIS]) == []
    assert ended_rotations(routers, [heard(PARIS[4], 5.0), heard(of("rome", 3)[0], 5.0)]) == ["berlin"]


def test_bytes_add_up_over_the_tunnels_of_a_router() -> None:
    there = by_key([heard(BERLIN[1], 10.0, 100, 7), heard(BERLIN[2], 30.0, 20, 1), heard(PARIS[0])])
    first = counted({}, [*BERLIN, *PARIS], there)
    assert (first["berlin"].received, first["berlin"].sent, first["berlin"].last_seen) == (120, 8, 30.0)
    assert (first["paris"].received, first["paris"].last_seen) == (0, None)
    assert counted(first, [*BERLIN, *PARIS], there) == first


def test_bytes_and_last_seen_outlive_an_interface_that_is_away_or_created_again_and_go_with_the_router() -> None:
    before = counted({}, BERLIN, by_key([heard(BERLIN[1], 10.0, 100, 7)]))
    empty = counted(before, BERLIN, by_key([heard(BERLIN[1])]))
    assert (empty["berlin"].received, empty["berlin"].last_seen) == (100, 10.0)
    after = counted(empty, BERLIN, by_key([heard(BERLIN[1], 99.0, 101, 8)]))
    assert (after["berlin"].received, after["berlin"].sent, after["berlin"].last_seen) == (201, 15, 99.0)
    assert counted(before, BERLIN, by_key([heard(BERLIN[1], 20.0, 30, 9)]))["berlin"].received == 130
    assert counted(before, BERLIN, {})["berlin"] == replace(before["berlin"], counters={})
    assert counted(before, PARIS, {}) == {"paris": NO_TRAFFIC}


def test_totals_are_read_as_they_were_kept(tmp_path: Path) -> None:
    totals = {**counted({}, BERLIN, by_key([heard(BERLIN[1], 10.0, 100, 7)])), "new": NO_TRAFFIC}
    State(tmp_path).save_totals(totals)
    assert State(tmp_path).totals() == totals
