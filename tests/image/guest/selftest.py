"""Runs in the box, started by a unit that the machine's firmware hands over: looks, tries, prints what it found.

selftest.py SECTION...    one JSON object between the lines BEGIN SECTION and END SECTION for each; a section that fails
                          gives {"error": ...}, and the journal's end follows
"""

import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from network import LINKS, SERVER, build, run  # the folder of this file is Python's first place
from page import fixed
from tenants import tenants
from upgrades import back, broken, kernel, refusals, slots, upgrade

HERE = Path(__file__).parent
URL = f"http://{SERVER}:8080/file"
POLICY = "".join(f'[paths.{link.name}]\ninterface = "{link.name}"\n' for link in LINKS) + (
    '[[rules]]\nname = "count"\nmin_subflows = 1\ndry_run = true\n'
)


VERDICT = """\
import sys
sys.path.insert(0, '/usr/lib/tributary/python')
from image.upgrade import machine
found = machine.look()
print(found.health.value, *found.units)
"""


def quietly(command: str) -> str:
    """What ``command`` prints, whatever it ends with."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=120).stdout.strip()


def system() -> dict[str, Any]:
    """What the first boot made of the image."""
    return {
        "kernel": quietly("uname -r"),
        "state": quietly("systemctl is-system-running --wait"),
        "as_an_upgrade": quietly(f'/usr/bin/python3 -ISBc "{VERDICT}"'),
        "failed": quietly("systemctl list-units --failed --plain --no-legend").splitlines(),
        "why": quietly("systemctl status --state=failed --no-pager --lines=20"),
        "active": {
            unit: quietly(f"systemctl is-active {unit}")
            for unit in quietly("systemctl list-unit-files --plain --no-legend 'tributary-*' ssh.service").split()
            if unit.endswith(".service")
        },
        "sockets": quietly("systemctl is-active tributary-converter.socket"),
        "hostname": quietly("hostname"),
        "machine_id": Path("/etc/machine-id").read_text().strip(),
        "host_keys": sorted(path.name for path in Path("/etc/ssh").glob("ssh_host_*_key")),
        "role": Path("/usr/lib/tributary/role").read_text().strip(),
        "root_bytes": int(quietly("findmnt --noheadings --bytes --output=SIZE /")),
        "data_bytes": int(quietly("findmnt --noheadings --bytes --output=SIZE /data") or 0),
        "root_source": quietly("findmnt --noheadings --output=PARTUUID /"),
        "firmware": "UEFI" if Path("/sys/firmware/efi").exists() else "BIOS",
        "card": sorted(path.name for path in Path("/boot/firmware").glob("tributary*")),
        "applied": Path("/boot/firmware/tributary-applied.txt").read_text(),
        "addresses": quietly("ip -brief address"),
        "resolver": str(Path("/etc/resolv.conf").resolve()),
        "open": [line.split()[3] for line in quietly("ss -Htln").splitlines()],
        "login": quietly("getent shadow tributary root | cut -d: -f1,2"),
    }


@contextmanager
def process(*command: str, inside: str) -> Iterator[None]:
    """A program of this folder in a namespace."""
    started = subprocess.Popen(["ip", "netns", "exec", inside, sys.executable, *command])
    time.sleep(3)
    try:
        yield
    finally:
        started.kill()
        started.wait()


def fetch(port: int) -> dict[str, Any]:
    """A download by the proxy at ``port``, with what the throttler knew of it and how its classes looked meanwhile."""
    program = ["ip", "netns", "exec", "client", sys.executable, str(HERE / "transfer.py")]
    started = subprocess.Popen([*program, "fetch", LINKS[0].box, str(port), URL], stdout=subprocess.PIPE, text=True)
    seen: set[str] = set()
    while started.poll() is None:
        seen |= {line.split()[1] for line in quietly("tc qdisc show dev wired").splitlines()}
        time.sleep(0.3)
    printed = started.communicate()[0]
    if not printed:
        raise RuntimeError(f"the client of port {port} ended with {started.returncode}")
    return {**json.loads(printed), "qdiscs": sorted(seen)}


def downloads() -> dict[str, Any]:
    """Through Squid, through the native converter, and with the wired subflow held."""
    Path("/etc/tributary/throttler.toml").write_text(POLICY)
    run("systemctl restart tributary-throttler.service")
    with process(str(HERE / "transfer.py"), "serve", SERVER, "8080", inside="server"):
        found: dict[str, Any] = {"squid": fetch(3128), "converter": fetch(3129)}
        run("tributary-throttler set wired-slow path=wired rate=1mbit")
        found["held"] = fetch(3129)
        found["status"] = json.loads(run("tributary status throttler"))
        run("tributary-throttler unset wired-slow")
    found["joins"] = quietly("nstat -asz MPTcpExtMPJoinAckRx | tail -n 1")
    found["server_saw"] = quietly("ip netns exec server nstat -asz MPTcpExtMPCapableSYNRX | tail -n 1")
    return found


def features() -> dict[str, Any]:
    """The other half of the feature probes, tried one by one on an interface of no use."""
    tries = {
        "sch_netem": "tc qdisc add dev probe root netem delay 1ms",
        "fq_codel": "tc qdisc replace dev probe root fq_codel",
        "htb": "tc qdisc replace dev probe root handle 1: htb",
        "cls_fw": "tc filter add dev probe parent 1: protocol ip handle 1 fw classid 1:1",
    }
    run("ip link add probe type dummy")
    try:
        return {name: subprocess.run(each.split(), check=False).returncode == 0 for name, each in tries.items()}
    finally:
        run("ip link del probe")


def doctor() -> dict[str, Any]:
    """All that the doctor looks at, once the clock has a time server, as a gateway has."""
    folder = Path("/etc/systemd/timesyncd.conf.d")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "site.conf").write_text(f"[Time]\nNTP={SERVER}\n")
    with process(str(HERE / "clock.py"), SERVER, inside="server"):
        run("systemctl restart systemd-timesyncd.service")
        for _ in range(60):
            if quietly("timedatectl show --property=NTPSynchronized --value") == "yes":
                break
            time.sleep(1)
        role = Path("/usr/lib/tributary/role").read_text().strip()
        done = subprocess.run(
            ["tributary-doctor", "--json", "--role", role], capture_output=True, text=True, check=False
        )
        # The same as its unit does it, with fewer rights.
        run("systemctl start tributary-doctor.service")
        recorded = json.loads(Path("/run/tributary-doctor/findings.json").read_text())
    if not done.stdout:
        raise RuntimeError(f"tributary-doctor: {done.stderr}")
    return {"code": done.returncode, "findings": json.loads(done.stdout), "recorded": recorded}


def network() -> dict[str, Any]:
    """The client, its links and the server, for the sections that follow."""
    build()
    return {"links": quietly("ip netns exec link-wired tc qdisc show")}


def links() -> dict[str, Any]:
    """A home router's links, and what serves its LAN."""
    for _ in range(60):
        status = json.loads(run("tributary status router"))
        if "default" in quietly("ip route show table 8402"):
            break
        time.sleep(1)
    return {
        "status": status,
        "endpoints": quietly("ip mptcp endpoint show"),
        "rules": quietly("ip rule show"),
        "lan": quietly("ip -brief address show to 192.168.77.0/24"),
        "active": {
            unit: quietly(f"systemctl is-active {unit}") for unit in ("dnsmasq.service", "tributary-lan.service")
        },
        "forwards": quietly("sysctl -n net.ipv4.ip_forward"),
        "names": quietly("ss -Hluln sport = :53"),
        "doctor": json.loads(
            quietly("tributary-doctor --role router --json --only kernel,mptcp,routing,endpoints,firewall")
        ),
    }


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    each.__name__: each
    for each in (
        *(system, features, network, downloads, doctor, fixed, tenants, links),
        *(slots, refusals, broken, upgrade, back, kernel),
    )
}


def main() -> None:
    """Each section, also after one that failed."""
    failed = False
    for name in sys.argv[1:]:
        try:
            found = SECTIONS[name]()
        except Exception:
            found, failed = {"error": traceback.format_exc()}, True
        print(f"BEGIN {name}\n{json.dumps(found)}\nEND {name}", flush=True)
    if failed:
        print(quietly("journalctl --boot --no-pager --lines=300"), flush=True)


if __name__ == "__main__":
    main()
