"""Converters of two tenants: the same port in namespaces of their own, by the packaged template unit."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from network import run

TRANSFER = str(Path(__file__).parent / "transfer.py")
TENANTS = ("blue", "green")
PORT = 4000
SERVER = "203.0.113.80"  # an own address of each namespace: loopback can be opened by nobody
CONTROL = "/run/tributary-converter-{tenant}/control.sock"
CONFIGURATION = f"""\
[clients]
networks = ["127.0.0.0/8"]
[targets]
allow = ["{SERVER}/32"]
[control]
socket = "{CONTROL}"
[log]
access = "/var/log/tributary-converter-{{tenant}}/access.log"
[gateway]
address = "127.0.0.1:9"
mptcp = false
syn_option = true
[[listen]]
kind = "http"
address = "127.0.0.1:{PORT}"
"""
# As docs/converter-chains.md has it for the one unit.
DROP_IN = "[Service]\nCapabilityBoundingSet=CAP_BPF\nAmbientCapabilities=CAP_BPF\nSystemCallFilter=bpf\n"


def tenants() -> dict[str, Any]:
    """A download by each, a hand-over as an upgrade of the package does it, and one without a namespace."""
    Path("/etc/tributary/converter").mkdir()
    drop_in = Path("/etc/systemd/system/tributary-converter@.service.d/syn-option.conf")
    drop_in.parent.mkdir()
    drop_in.write_text(DROP_IN)
    for tenant in (*TENANTS, "nobody"):
        text = CONFIGURATION.format(tenant=tenant)
        Path(f"/etc/tributary/converter/{tenant}.toml").write_text(text)
    run("systemctl daemon-reload")
    found = {tenant: _begin(tenant) for tenant in TENANTS}
    run("systemctl kill --signal=USR2 --kill-whom=main tributary-converter@*.service")
    return {
        **found,
        "after": [_fetch(tenant) for tenant in TENANTS],
        "logs": [Path(f"/var/log/tributary-converter-{tenant}/access.log").read_text() for tenant in TENANTS],
        "outside": run("ss -Htln"),
        "nobody": subprocess.run(["systemctl", "start", _unit("nobody")], capture_output=True, check=False).returncode,
    }


def _unit(tenant: str) -> str:
    return f"tributary-converter@{tenant}.service"


def _begin(tenant: str) -> dict[str, Any]:
    """The tenant's network, server and converter; what came by it, and as whom it runs."""
    run(f"ip netns add {tenant}")
    run("ip link set lo up", inside=tenant)
    run(f"ip address add {SERVER} dev lo", inside=tenant)
    subprocess.Popen(["ip", "netns", "exec", tenant, sys.executable, TRANSFER, "serve", SERVER, "8080"])
    while ":8080" not in run("ss -Htln", inside=tenant):
        time.sleep(0.2)
    run(f"systemctl start {_unit(tenant)}")
    process = run(f"systemctl show --property=MainPID --value {_unit(tenant)}").strip()
    return {
        "download": _fetch(tenant),
        "user": Path(f"/proc/{process}").stat().st_uid,
        "status": json.loads(run(f"tributary-converter status --json --socket {CONTROL.format(tenant=tenant)}")),
    }


def _fetch(tenant: str) -> dict[str, Any]:
    command = f"{sys.executable} {TRANSFER} fetch 127.0.0.1 {PORT} http://{SERVER}:8080/"
    found: dict[str, Any] = json.loads(run(command, inside=tenant))
    return found
