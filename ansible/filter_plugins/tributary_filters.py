"""Filters of the playbooks: TOML out of variables, questions about addresses, and which packages to install.

ansible-core has none of these, and collections are not asked for.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_network
from pathlib import PurePath
from typing import Any

_EVERYWHERE = ("[::]", "0.0.0.0")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_TABLE = re.compile(r"^(?:table |\*)(?P<name>[^{\n]*\w)", re.MULTILINE)
_TRACKING = re.compile(
    r"\bct state\b|\bconntrack\b|-m state\b|\b[ds]nat\b|\bmasquerade\b|\bredirect (?:--)?to\b", re.IGNORECASE
)
_LETS_UNTRACKED_IN = re.compile(r"^[^#\"\n]*\buntracked\b[^\"\n]*\baccept\b", re.MULTILINE | re.IGNORECASE)
_PACKAGE = re.compile(r"(?P<name>[^_]+)_(?P<version>[^_]+)_(?P<architecture>[^_]+)\.deb")


def to_toml(document: Mapping[str, Any]) -> str:
    """``document`` as TOML 1.0; keys that are null are left out, so that an inventory can take a default away."""
    said = {str(key): value for key, value in document.items() if value is not None}
    plain = [f"{_key(key)} = {_value(value)}" for key, value in said.items() if not _is_table(value)]
    tables = [block for key, value in said.items() if _is_table(value) for block in _tables(key, value)]
    return "\n\n".join(filter(None, ["\n".join(plain), *tables])) + "\n"


def of_version(networks: Iterable[str], version: int) -> list[str]:
    """The ``networks`` and addresses of IP ``version``, 4 or 6, in order."""
    return [str(each) for each in networks if ip_network(str(each)).version == version]


def not_networks(networks: Iterable[str]) -> list[str]:
    """Those of ``networks`` that are neither a network nor an address."""
    return [str(each) for each in networks if not _is_network(each)]


def covers(networks: Iterable[str], address: str) -> bool:
    """Whether ``address`` is in one of ``networks``. IPv4 addresses may be written as ::ffff:192.0.2.1."""
    found = ip_address(str(address).partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    return any(found in ip_network(str(each)) for each in networks)


def tables_that_track(rules: str) -> list[str]:
    """The tables in what nft(8) and iptables-save(8) list that need TCP to be tracked, except the playbook's own."""
    tables = re.split(r"^(?=table |\*)", rules, flags=re.MULTILINE)
    found = [table for table in tables if _TRACKING.search(table) and not _LETS_UNTRACKED_IN.search(table)]
    names = (match["name"] for table in found if (match := _TABLE.match(table)))
    return [name for name in dict.fromkeys(names) if name != "inet tributary-firewall"]


def listening_ports(listeners: Iterable[Mapping[str, Any]], kind: str | None = None) -> list[int]:
    """The ports of a converter's ``listeners``, of all or of those of ``kind``; each once, in order."""
    wanted = [each for each in listeners if kind is None or each["kind"] == kind]
    return sorted({int(str(each["address"]).rpartition(":")[2]) for each in wanted})


def as_listeners(addresses: Iterable[str], port: int) -> list[dict[str, str]]:
    """HTTP listeners at ``addresses``, as in a converter's settings: {"kind": "http", "address": "[::1]:3128"}."""
    written = (f"[{address}]" if ":" in address else address for address in addresses)
    return [{"kind": "http", "address": f"{address}:{port}"} for address in written]


def as_handoff_listeners(addresses: Iterable[str]) -> list[dict[str, str]]:
    """Listeners of a hand-off's front at 'ADDRESS:PORT' each, as in a converter's settings."""
    return [{"kind": "handoff", "address": address} for address in addresses]


def as_back_ends(back_ends: Iterable[Mapping[str, Any]], ports: Mapping[str, int]) -> list[dict[str, str]]:
    """The ``back_ends`` of a hand-off, each with name and address, as a converter's settings have them.

    ``ports`` are those of all: fronts, hand_off and http.
    """
    kinds = ("fronts", "hand_off", "http")
    return [{"name": each["name"]} | {kind: f"{each['address']}:{ports[kind]}" for kind in kinds} for each in back_ends]


def places(listeners: Iterable[Mapping[str, Any]], kind: str | None = None) -> list[str]:
    """Where ``listeners``, all or those of ``kind``, are reached from their own host: 'ADDRESS:PORT', each once."""
    wanted = (str(each["address"]).rpartition(":") for each in listeners if kind is None or each["kind"] == kind)
    return sorted({f"{'127.0.0.1' if host in _EVERYWHERE else host}:{port}" for host, _, port in wanted})


def packages_at(
    files: Iterable[str], names: Sequence[str], version: str, suite: str, architecture: str
) -> dict[str, Any]:
    """Which of the .deb ``files`` are ``names`` at ``version``: {"version": ..., "files": [...]}, ordered as ``names``.

    ``version`` has no suite ('0.1.0-1' for files of '0.1.0-1~deb13'); empty: the only one that there is.
    {"refused": ...} says in one line what is missing.
    """
    known = _by_version(files, suite, architecture)
    complete = sorted(each for each, there in known.items() if set(names) <= set(there))
    said = ", ".join(each.removesuffix(f"~{suite}") for each in complete) or "none"
    if not version and len(complete) != 1:
        return {"refused": f"tributary_version is not set: versions of all packages for {suite} {architecture}: {said}"}
    chosen = f"{version}~{suite}" if version else complete[0]
    missing = [name for name in names if name not in known.get(chosen, {})]
    if missing:
        return {"refused": f"no package {missing[0]} {chosen} for {architecture}: versions of all packages: {said}"}
    return {"version": chosen, "files": [known[chosen][name] for name in names]}


def _by_version(files: Iterable[str], suite: str, architecture: str) -> dict[str, dict[str, str]]:
    known: dict[str, dict[str, str]] = {}
    for file in files:
        match = _PACKAGE.fullmatch(PurePath(file).name)
        if match and match["version"].endswith(f"~{suite}") and match["architecture"] in (architecture, "all"):
            known.setdefault(match["version"], {})[match["name"]] = str(file)
    return known


def _is_network(text: str) -> bool:
    try:
        ip_network(str(text))
    except ValueError:
        return False
    return True


def _is_table(value: Any) -> bool:
    """A table, or an array of tables, neither of which can stand before the plain keys."""
    if _is_list(value):
        return bool(value) and all(isinstance(each, Mapping) for each in value)
    return isinstance(value, Mapping)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _tables(key: str, value: Any) -> list[str]:
    """A table, or an array of tables, of the first level; what is inside of them stands in one line."""
    head, each_table = (f"[{_key(key)}]", [value]) if isinstance(value, Mapping) else (f"[[{_key(key)}]]", value)
    return ["\n".join([head, *_lines(table)]) for table in each_table]


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(str(key))} = {_value(value)}" for key, value in table.items() if value is not None]


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _string(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_lines(value)) + " }" if value else "{}"
    if _is_list(value):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _string(str(value))


def _string(text: str) -> str:
    # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


class FilterModule:
    """What Ansible looks for in a filter plugin."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By the names that templates use."""
        return {
            "to_toml": to_toml,
            "of_version": of_version,
            "not_networks": not_networks,
            "covers": covers,
            "tables_that_track": tables_that_track,
            "listening_ports": listening_ports,
            "as_listeners": as_listeners,
            "as_handoff_listeners": as_handoff_listeners,
            "as_back_ends": as_back_ends,
            "places": places,
            "packages_at": packages_at,
        }
