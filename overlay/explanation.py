"""The path of an ingress's connections to a server, from the tables and delays in etcd."""

from collections.abc import Mapping
from typing import Any

_FIRST_WINDOW_KB = 15
_CHOSEN_BY = {"name": "", "measurement": ", as measured", "order": ", the first of these that is alive: not measured"}
_ROUNDS_BY = {"size": "as asked for", "port": "by the server's port", "network": "by the server's network"}


def text(answer: Mapping[str, Any]) -> str:
    """The answer as text: the egress, the best chain, and all chains in the order in which they are tried."""
    ingress, egress, rounds = answer["ingress"], answer["egress"], answer["rounds"]
    routed = "" if rounds == egress["rounds"] else f"; the routes of {ingress} are for {egress['rounds']} rounds"
    port = f" port {egress['port']}" if "port" in egress else ""
    lines = [
        f"{answer['server']} has the egress {answer['node']}, by {egress['to']}{port}{_CHOSEN_BY[answer['node_by']]}",
        *map(_candidate, answer["candidates"]),
        f"{rounds} rounds, up to {up_to_kb(rounds):,} kB, {_ROUNDS_BY[answer['rounds_by']]}{routed}",
    ]
    return "\n".join(
        [*lines, *(_chains(answer) if answer["chains"] else [f"{ingress} connects to it: {_why(answer)}"])]
    )


def up_to_kb(rounds: int) -> int:
    """The largest transfer of so many rounds, in kilobytes: the first carries 15, each further one twice as much."""
    return _FIRST_WINDOW_KB * ((1 << rounds) - 1)


def _chains(answer: Mapping[str, Any]) -> list[str]:
    best, direct = answer["chains"][0], answer["direct"]
    hops = zip(best["nodes"][1:], best["hops_ms"], best["hops_estimated"], strict=True)
    return [
        f"{_time(best['time_ms'])}; {_time(direct['time_ms'])} without converters",
        "",
        f"  {best['nodes'][0]}",
        *(f"  {node}  {_time(hop)}{', estimated' * estimated}" for node, hop, estimated in hops),
        *_last_leg(answer),
        "",
        f"{'time':>10}  chain, by version {answer['version']} of the table, in the order in which they are tried",
        *(f"{_time(each['time_ms']):>10}  {' '.join(each['nodes'])}" for each in answer["chains"]),
    ]


def _candidate(candidate: Mapping[str, Any]) -> str:
    if not candidate["passable"]:
        return f"  {candidate['node']}: dead, or its converter does not answer"
    if candidate["to_servers_ms"] is None:
        return f"  {candidate['node']}: its delay to the servers is not measured"
    whole = "" if candidate["time_ms"] is None else f"; a transfer through it takes {_time(candidate['time_ms'])}"
    return f"  {candidate['node']}: {_time(candidate['to_servers_ms'])} from the servers{whole}"


def _last_leg(answer: Mapping[str, Any]) -> list[str]:
    """The hop to the server, if the times include it."""
    legs = {each["node"]: each["to_servers_ms"] for each in answer["candidates"]}
    leg = legs.get(answer["node"])
    return [] if leg is None else [f"  {answer['server']}  {_time(leg)}"]


def _why(answer: Mapping[str, Any]) -> str:
    if answer["node"] == answer["ingress"]:
        return "it is the egress"
    if answer["version"] is None:
        return "it has no table yet"
    return f"version {answer['version']} of its table has no chain to {answer['node']}"


def _time(milliseconds: float | None) -> str:
    return "unknown" if milliseconds is None else f"{milliseconds:.1f} ms"
