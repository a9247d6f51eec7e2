"""What every image must be: settings, a system that is nobody's yet, a kernel, and what two slots share."""

import gzip
import struct
import zlib
from collections.abc import Iterator

from image.check.findings import Disk, Finding, found
from image.firstboot.identity import USER
from image.firstboot.reading import NAME, Wrong, read
from image.firstboot.settings import Role
from image.make.slots import KEPT

_WANTS = "/etc/systemd/system/multi-user.target.wants"
_EARLY = ("systemd-resolved.service", "tributary-firewall.service")
_RUNNING = (
    *("tributary-firstboot.service", "tributary-firstboot-report.service", "tributary-mptcp.service"),
    "tributary-low-mark.service",
    "systemd-networkd.service",
)
_ENABLED = dict.fromkeys(_RUNNING, _WANTS) | dict.fromkeys(_EARLY, "/etc/systemd/system/sysinit.target.wants")
_OWN = (f"tributary-{part}" for part in ("converter", "console", "firstboot", "first-start"))
_OF_ROUTER = ("tributary-router", "dnsmasq", *_OWN)
_OF_ROLE = {
    # With what makes a home router of it where its card says so.
    Role.GATEWAY: ("tributary-squid", "tributary-throttler", "tributary-gateway", *_OF_ROUTER),
    Role.ROUTER: _OF_ROUTER,
}
_ASIDE = {
    _WANTS: (
        *("squid.service", "ssh.service", "dnsmasq.service", "NetworkManager.service", "ModemManager.service"),
        "tributary-first-start.service",
    ),
    "/etc/systemd/system/sockets.target.wants": ("tributary-converter.socket", "ssh.socket"),
}
# A slot knows nothing of the disk that it lies on (image/make/slots.py).
_DEVICES = {
    "/": "/dev/root",
    "/boot/firmware": "/dev/tributary/boot",
    "/data": "/dev/tributary/data",
    **{f"/{path}": f"/data/{path}" for path in KEPT},
}
_EMPTY = ("/var/lib/apt/lists", "/var/cache/apt/archives", "/etc/ssl/private", "/run")
_SMALL = {"lock", "partial"}  # folders that apt makes anew by itself
# Documentation/arch/arm64/booting.rst: the magic of an Image; arch/x86/boot: that of the setup header, and where it is.
_ARM64_MAGIC, _ARM64_AT = b"ARM\x64", 0x38
_X86_MAGIC, _X86_AT = b"HdrS", 0x202
_GZIP = b"\x1f\x8b"
# An initramfs begins with a cpio archive, plain (microcode is in one before the rest) or packed.
_ARCHIVES = (b"070701", b"\x28\xb5\x2f\xfd", _GZIP, b"\xfd7zXZ")


def settings(disk: Disk) -> Iterator[Finding]:
    """tributary.toml on the boot partition, accepted as it is."""
    what = f"boot partition: {NAME} is accepted"
    if NAME not in disk.boot.names():
        yield Finding(what, "it is not there")
        return
    try:
        read(disk.boot.read(NAME), disk.role)
        yield Finding(what)
    except Wrong as wrong:
        yield Finding(what, wrong.lines[0])


def kernel(disk: Disk) -> Iterator[Finding]:
    """The links that lead to the kernel, and what is there."""
    for name, judge in (("vmlinuz", lambda data: kernel_flaw(data, disk.architecture)), ("initrd.img", initramfs_flaw)):
        path = disk.root.link(f"/{name}")
        given = disk.root.read(f"/{path}") if path else b""
        yield Finding(f"root: /{name} leads to {path or 'nothing'}", judge(given) if given else "it is not there")


def data(disk: Disk) -> Iterator[Finding]:
    """What both slots share has its place."""
    flaw = disk.data.flaw()
    yield Finding("data: a clean ext4 file system", flaw)
    for path in () if flaw else KEPT:
        folder, _, name = path.rpartition("/")
        yield found(f"data: {path}", met=name in disk.data.names(f"/{folder}"), otherwise="missing")


def mounts(disk: Disk) -> Iterator[Finding]:
    """The file system table has what is mounted where."""
    lines = [line.split() for line in disk.root.read("/etc/fstab").decode().splitlines() if line.strip()]
    table = {fields[1]: fields for fields in lines if len(fields) > 3}
    for place, wanted in _DEVICES.items():
        fields = table.get(place, ["nothing", "", "", ""])
        what = f"root: /etc/fstab mounts {place}"
        wrong = f"by {fields[0]}: accepted: {wanted}" if fields[0] != wanted else ""
        yield Finding(what, wrong or ("it has noauto" if "noauto" in fields[3].split(",") else ""))


def identity(disk: Disk) -> Iterator[Finding]:
    """The role is written; keys, numbers and passwords are not."""
    root = disk.root
    written = root.read("/usr/lib/tributary/role").decode().strip()
    yield found(
        f"root: the role is {disk.role}", met=written == disk.role, otherwise=f"it is {written or 'not written'}"
    )
    keys = sorted(name for name in root.names("/etc/ssh") if name.startswith("ssh_host_"))
    yield found("root: no SSH host keys", met=not keys, otherwise=f"{', '.join(keys)}: every box must make its own")
    number = root.read("/etc/machine-id").decode().strip() if "machine-id" in root.names("/etc") else "missing"
    yield found("root: /etc/machine-id is empty", met=not number, otherwise=f"it is {number}")
    yield from _accounts(disk)


def _accounts(disk: Disk) -> Iterator[Finding]:
    shadow = [line.split(":") for line in disk.root.read("/etc/shadow").decode().splitlines()]
    open_ = [fields[0] for fields in shadow if not fields[1].startswith(("!", "*"))]
    yield found("root: no account has a password", met=not open_, otherwise=f"open: {', '.join(open_)}")
    lines = [line.split(":") for line in disk.root.read("/etc/passwd").decode().splitlines()]
    homes = {fields[0]: fields[5] for fields in lines if len(fields) > 5}
    home = homes.get(USER, "")
    there = home.rpartition("/")[2] in disk.root.names(home.rpartition("/")[0] or "/")
    yield found(f"root: the user {USER} has a home", met=bool(home) and there, otherwise=f"it has {home or 'no entry'}")
    rights = disk.root.names("/etc/sudoers.d") - {"README"}
    yield found("root: nobody may be root yet", met=not rights, otherwise=f"/etc/sudoers.d has {', '.join(rights)}")
    private = disk.root.names("/root/.ssh") | disk.root.names(f"{home}/.ssh")
    yield found("root: nobody has a key to it", met="authorized_keys" not in private, otherwise="authorized_keys")


def units(disk: Disk) -> Iterator[Finding]:
    """What is there for the role, what runs, and what must not."""
    there = disk.root.names("/usr/lib/systemd/system")
    for name in _OF_ROLE[disk.role]:
        yield found(f"root: {name}.service is there", met=f"{name}.service" in there, otherwise="missing")
    for unit, folder in _ENABLED.items():
        yield found(f"root: {unit} is enabled", met=unit in disk.root.names(folder), otherwise="not enabled")
    for folder, others in _ASIDE.items():
        enabled = disk.root.names(folder)
        for unit in others:
            yield found(f"root: {unit} waits for the settings", met=unit not in enabled, otherwise="enabled")
    link = disk.root.link("/etc/resolv.conf")
    stub = "run/systemd/resolve/stub-resolv.conf"
    yield found("root: names are asked of systemd-resolved", met=link.endswith(stub), otherwise=f"link to {link!r}")
    extra = sorted(disk.root.names("/usr/sbin") & {"ifup", "dhclient"})
    yield found("root: networks are systemd-networkd's", met=not extra, otherwise=f"{', '.join(extra)} as well")


def leftovers(disk: Disk) -> Iterator[Finding]:
    """Nothing of how it was made."""
    for folder in _EMPTY:
        extra = sorted(disk.root.names(folder) - _SMALL)
        yield found(f"root: {folder} is empty", met=not extra, otherwise=f"{extra[:1]} and {len(extra) - 1} more")


def kernel_flaw(data: bytes, architecture: str) -> str:
    """What is wrong with the beginning of a kernel for Debian's ``architecture``; empty if nothing is."""
    if architecture == "amd64":
        return "" if data[_X86_AT : _X86_AT + 4] == _X86_MAGIC else "no kernel for x86"
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, struct.error, zlib.error):
            return "damaged: it is packed, and cannot be unpacked"
    return "" if data[_ARM64_AT : _ARM64_AT + 4] == _ARM64_MAGIC else "no kernel for arm64"


def initramfs_flaw(data: bytes) -> str:
    """The same of an initramfs."""
    return "" if data.startswith(_ARCHIVES) else "no initramfs"


ALL = (kernel, data, settings, mounts, identity, units, leftovers)
"""In the order in which they are looked at."""
