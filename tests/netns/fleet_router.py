"""The provider's router in front of the fleet: BIRD, and how the kernel spreads flows over the nodes."""

import json
import subprocess
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tests.netns.fleet_gateway import NODES, RUN_BIRD, SHARED, WITHOUT_BFD, Host
from tributary.settings.errors import CommandError


@dataclass
class Router:
    """The provider's router. Its BIRD spreads by a plain hash; ``resilient``, over buckets that stay where they are."""

    host: Host
    now: dict[int, frozenset[str]] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)
    buckets: bool = False

    def follow(self) -> subprocess.Popen[str]:
        """Keep ``now`` (the nodes that the shared address is spread over, by IP version) as the kernel's routes are."""
        command = ["ip", "-n", self.host.namespace, "-o", "monitor", "route"]
        # A Ctrl-C is for the tests alone.
        monitor = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        threading.Thread(target=self._follow, args=(monitor,), daemon=True).start()
        return monitor

    def wait_for(self, names: Collection[str], seconds: float) -> None:
        """Until both shared addresses are spread over the nodes with these names, and no other."""
        with self.changed:
            found = self.changed.wait_for(
                lambda: all(self.now.get(version) == frozenset(names) for version in SHARED), seconds
            )
        assert found, f"spread over {self.now}, not over {sorted(names)}, after {seconds} s"

    @contextmanager
    def resilient(self) -> Iterator[None]:
        """In the block IPv4's flows keep their node for as long as it is there (ip-nexthop(8), type resilient)."""
        node = self.host
        with self.changed:
            for name in self.now[4]:
                node.ip("nexthop", "add", "id", _number(name), "via", NODES[name][0], "dev", "lan")
            try:
                self._spread("add", self.now[4])
            except CommandError as error:
                node.ip("nexthop", "flush")
                pytest.skip(f"no resilient groups of next hops: {error}")
            self.buckets = True
            # Before BIRD's, which has the metric 32.
            node.ip("route", "add", SHARED[4], "nhid", "100", "metric", "1")
        try:
            yield
        finally:
            with self.changed:
                self.buckets = False
                node.ip("nexthop", "flush")

    def _spread(self, how: str, names: Collection[str]) -> None:
        members = "/".join(_number(name) for name in sorted(names))
        timers = ("buckets", "256", "idle_timer", "60", "unbalanced_timer", "0")
        self.host.ip("nexthop", how, "id", "100", "group", members, "type", "resilient", *timers)

    def _follow(self, monitor: subprocess.Popen[str]) -> None:
        assert monitor.stdout is not None
        self._look()
        for line in monitor.stdout:
            if any(address in line for address in SHARED.values()):
                # BIRD takes a route out before it puts the next one in.
                time.sleep(0.05)
                self._look()

    def _look(self) -> None:
        with self.changed:
            before = self.now.get(4, frozenset())
            self.now |= {version: self._next_hops(version) for version in SHARED}
            if self.buckets and self.now[4] != before:
                self._change(before, self.now[4])
            self.changed.notify_all()

    def _change(self, before: frozenset[str], after: frozenset[str]) -> None:
        for name in before - after:
            self.host.ip("nexthop", "del", "id", _number(name))
        for name in after - before:
            self.host.ip("nexthop", "add", "id", _number(name), "via", NODES[name][0], "dev", "lan")
        if after - before:
            self._spread("replace", after)

    def _next_hops(self, version: int) -> frozenset[str]:
        printed = self.host.run("ip", "-j", f"-{version}", "route", "show", SHARED[version], "proto", "bird")
        routes = json.loads(printed)
        hops = [hop["gateway"] for route in routes for hop in (route.get("nexthops") or [route])]
        own = {address: name for name, addresses in NODES.items() for address in addresses}
        return frozenset(own[hop] for hop in hops)


def start_router(host: Host) -> Router:
    host.prepare()
    # Ports count beside addresses, or a home's flows would all go to one node.
    host.sysctl(net__ipv4__fib_multipath_hash_policy=1, net__ipv6__fib_multipath_hash_policy=1)
    host.sysctl(net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1)
    host.put("/etc/bird/bird.conf", _bird_of_the_router())
    host.start("bird", RUN_BIRD)
    return Router(host)


@contextmanager
def following(router: Router) -> Iterator[None]:
    monitor = router.follow()
    try:
        yield
    finally:
        monitor.kill()
        monitor.wait()


def _number(name: str) -> str:
    """The next hop's, as ip-nexthop(8) wants one."""
    return name.removeprefix("gw")


def _bird_of_the_router() -> str:
    """The other side of what the role says to BIRD."""
    blocks = ["log syslog all;", "router id 192.0.2.1;", "protocol device {}", "protocol bfd {}"]
    for version in SHARED:
        blocks.append(
            f"protocol kernel {{ merge paths yes; ipv{version} {{ import none; export where source = RTS_BGP; }}; }}"
        )
    for name, addresses in NODES.items():
        for address in addresses:
            version = 6 if ":" in address else 4
            blocks.append(
                f"protocol bgp {name}_{version} {{ local as 65000; neighbor {address} as 65010;"
                f" connect delay time 1; connect retry time 1; error wait time 1, 2;"
                f" {'' if name == WITHOUT_BFD else 'bfd on;'} ipv{version} {{ import all; export none; }}; }}"
            )
    return "\n".join(blocks) + "\n"
