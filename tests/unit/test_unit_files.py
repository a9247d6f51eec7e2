"""The systemd units, judged by systemd's own tools; nothing is started."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tributary.paths import ROOT
from tributary.settings.errors import Exit

SERVICES = {
    "squid": ("CAP_NET_ADMIN CAP_NET_BIND_SERVICE CAP_SETUID CAP_SETGID CAP_CHOWN", 3),
    "throttler": ("CAP_NET_ADMIN CAP_NET_RAW CAP_CHOWN", 3),
    "router": ("CAP_NET_ADMIN CAP_NET_RAW CAP_CHOWN", 3),
    "gateway": ("CAP_NET_ADMIN", 3),
    "gateway-sync": ("CAP_NET_ADMIN", 3),
    "gateway-control": ("CAP_NET_ADMIN CAP_CHOWN", 3),
    "gateway-dns": ("CAP_NET_BIND_SERVICE", 3),
    "converter": ("CAP_NET_ADMIN CAP_NET_RAW CAP_NET_BIND_SERVICE", 3),
    "switch": ("CAP_NET_ADMIN CAP_BPF CAP_PERFMON", 3),
    "doctor": ("CAP_NET_ADMIN CAP_SYS_PTRACE CAP_DAC_READ_SEARCH", 3),
    "doctor-fix@": ("CAP_NET_ADMIN CAP_SYS_PTRACE CAP_DAC_READ_SEARCH", 3),
    "accounts": ("CAP_DAC_READ_SEARCH", 3),
    "retransmissions": ("CAP_NET_ADMIN", 3),
    "mptcp": ("CAP_NET_ADMIN", 3),
    "low-mark": ("CAP_BPF CAP_NET_ADMIN", 3),
    "firewall": ("CAP_NET_ADMIN", 3),
    "backend": ("CAP_NET_ADMIN CAP_NET_BIND_SERVICE", 3),
    "overlay": ("CAP_CHOWN", 2.5),
    "overlay-agent": ("", 2.5),
    "overlay-controller": ("", 2.5),
    "console": ("", 2),
}
"""The capabilities that each keeps, and the exposure that it stays below."""

UNITS = sorted(
    path
    for folder in ("*/systemd", "image/*")
    for kind in ("service", "socket", "timer")
    for path in ROOT.glob(f"{folder}/tributary-*.{kind}")
)

_OLD_SYSTEMD = "Failed to parse socket protocol, ignoring: mptcp"
"""What systemd 253 and older say of the converter's socket, which is not packed for their releases."""

systemd_analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def unit(service: str) -> Path:
    (found,) = ROOT.glob(f"*/systemd/tributary-{service}.service")
    return found


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", "--no-pager", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@systemd_analyze
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_accepts_every_line(path: Path, tmp_path: Path) -> None:
    # Programs that are there, since the package is not installed on a developer's machine; and units that it names.
    for each in path.parent.glob("tributary-*"):
        if each.is_file():
            text = re.sub(r"^(Exec\w+=-?)/\S+", r"\1/bin/true", each.read_text(), flags=re.MULTILINE)
            (tmp_path / each.name).write_text(text)
    result = analyze("verify", "--man=no", str(tmp_path / path.name))
    assert result.returncode == 0, result.stderr
    assert [line for line in result.stderr.splitlines() if path.name in line and _OLD_SYSTEMD not in line] == []


def test_whoever_looks_at_numbers_sees_a_fix_at_once() -> None:
    assert "OnSuccess=tributary-doctor.service\n" in unit("doctor-fix@").read_text()
    assert unit("doctor").exists()


@systemd_analyze
@pytest.mark.parametrize("service", SERVICES)
def test_its_exposure_is_low(service: str) -> None:
    result = analyze("security", "--offline=true", str(unit(service)))
    found = re.search(r"Overall exposure level for \S+: (\d+\.\d+)", result.stdout)
    assert found is not None, result.stderr
    assert float(found[1]) < SERVICES[service][1]


@systemd_analyze
def test_systemd_accepts_every_line_of_a_tenants_converter(tmp_path: Path) -> None:
    folder = tmp_path / "tributary-converter@.service.d"
    shutil.copytree(unit("converter").parent / folder.name, folder)
    shutil.copy(unit("converter"), tmp_path / "tributary-converter@.service")
    for path in (folder / "tenant.conf", tmp_path / "tributary-converter@.service"):
        path.write_text(re.sub(r"=/usr/bin/tributary-converter", "=/bin/true", path.read_text()))
    (instance := tmp_path / "tributary-converter@blue.service").symlink_to("tributary-converter@.service")
    result = analyze("verify", "--man=no", str(instance))
    assert (result.returncode, "tributary-converter" in result.stderr) == (0, False), result.stderr


@pytest.mark.parametrize("service", ["throttler", "router", "gateway", "gateway-dns"])
def test_a_daemon_that_fails_is_tried_for_ever(service: str) -> None:
    lines = unit(service).read_text().splitlines()
    assert {"StartLimitIntervalSec=0", "Restart=on-failure"} <= set(lines)
    assert not [line for line in lines if line.startswith("StartLimitBurst=")]


def test_the_throttler_is_tried_until_nothing_is_in_its_way() -> None:
    lines = unit("throttler").read_text().splitlines()
    (never,) = (line.partition("=")[2].split() for line in lines if line.startswith("RestartPreventExitStatus="))
    assert str(int(Exit.UNAVAILABLE)) not in never


@pytest.mark.parametrize("folder", ["gateway/systemd", "image/firstboot"])
def test_rules_that_a_start_of_nftables_has_flushed_are_loaded_again(folder: str) -> None:
    (drop_in,) = (ROOT / folder / "nftables.service.d").iterdir()
    service = f"{drop_in.stem}.service"
    again = f"ExecStartPost=-/usr/bin/systemctl --no-block try-reload-or-restart {service}"
    assert again in drop_in.read_text().splitlines()
    assert "\nExecReload=" in (ROOT / folder / service).read_text()


@pytest.mark.parametrize("settings", ["tributary-converter.service", "tributary-converter@.service.d/*.conf"])
def test_whoever_reloads_a_converter_hears_of_what_it_would_refuse(settings: str) -> None:
    (file,) = (ROOT / "converter/systemd").glob(settings)
    lines = [line for line in file.read_text().splitlines() if line.startswith("Exec")]
    (check,) = (line.removeprefix("ExecStartPre=") for line in lines if line.startswith("ExecStartPre=/"))
    reload = [line for line in lines if line.startswith("ExecReload=/")]
    assert reload == [f"ExecReload={check}", "ExecReload=/bin/kill -HUP $MAINPID"]


@pytest.mark.parametrize(("job", "done"), [("restart", []), ("stop", ["down"])])
def test_a_restart_with_wrong_settings_leaves_the_tunnels_and_a_stop_does_not(
    job: str, done: list[str], tmp_path: Path
) -> None:
    log, tools = tmp_path / "log", {"systemctl": f"echo 7 tributary-gateway.service {job} running"}
    tools["tributary-gateway"] = f'[ "$1" != plan ] || exit {int(Exit.USAGE)}; echo "$1" >>{log}'
    for name, script in tools.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    log.touch()
    text = unit("gateway").read_text().replace("\\\n", " ").replace("$$", "$").replace("/usr/bin/", f"{tmp_path}/")
    for command in re.findall(r"^ExecStop=(.*)$", text, re.MULTILINE):
        # As the service manager does, which runs no further ones after one that fails.
        if subprocess.run(command, shell=True, check=False, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}).returncode:
            break
    assert log.read_text().split() == done


@pytest.mark.parametrize("service", ["gateway", "gateway-sync"])
def test_what_sets_the_tracking_of_connections_may(service: str) -> None:
    assert "ProtectKernelTunables=no" in unit(service).read_text().splitlines()


@pytest.mark.parametrize("service", SERVICES)
def test_it_keeps_no_capability_that_it_does_not_use(service: str) -> None:
    assert f"\nCapabilityBoundingSet={SERVICES[service][0]}\n" in unit(service).read_text()
