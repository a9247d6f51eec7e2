"""What each package holds.

One package, tributary-common, is made anew for each suite and architecture: it has all of our Python modules, since the
parts import one another's, and the wheels, of which two are compiled, for one Python. The packages of the Python parts
bring what makes a service of each, and fit every processor; the programs in Rust are static. So arm64 is packed on
amd64 without emulation, and nothing is compiled twice.

Wheels, because Debian 12 has pydantic 1 and a Scapy without what the sniffer uses, and because the versions that were
tested are the ones in requirements.lock.
"""

from debs import content, elf
from debs.package import LOW_MARK, PYTHON, File, Inputs, Package, Unit, Upgrade

MODULES = (
    *("command", "console", "doctor", "gateway", "image/firstboot", "image/upgrade", "overlay/reader", "router"),
    *("squid", "throttler", "tributary"),
)
"""Folders of the modules that run on gateways, home routers and images."""

FORBIDDEN = "guard/forbidden-targets.toml"
"""What squid/targets.py reads; the converter has it inside."""


def packages(inputs: Inputs) -> list[Package]:
    """All packages of a release, in the order in which they need each other."""
    return [
        _common(inputs),
        _converter(inputs),
        _throttler(inputs),
        _squid(inputs),
        _handoff(inputs),
        *([_overlay(inputs)] if "tributary-overlay" in inputs.programs else []),
        _router(inputs),
        _gateway(inputs),
        _console(inputs),
        _image(inputs),
    ]


_SYSCTLS = ("90-tributary.conf", "91-tributary-gateway.conf")


def _common(inputs: Inputs) -> Package:
    name, checkout = "tributary-common", inputs.checkout
    wheels = tuple(File(f"{PYTHON}/{path}", each) for wheel in inputs.wheels for path, each in wheel.files.items())
    return Package(
        name,
        "Multipath TCP converter: modules, libraries, kernel parameters",
        "What the parts of Tributary share: their Python modules, the libraries that\n"
        "these were tested with (in a folder of their own), the kernel parameters that\n"
        "connections over several paths need, and a doctor, which says what is wrong\n"
        "with a machine and what mends it.",
        architecture=inputs.release.architecture.name,
        files=(
            *(File(f"{PYTHON}/{room}/__init__.py", checkout[f"{room}/__init__.py"]) for room in ("image", "overlay")),
            *(module for part in MODULES for module in content.modules(checkout, part)),
            File(f"{PYTHON}/{FORBIDDEN}", checkout[FORBIDDEN]),
            *wheels,
            content.command("tributary", "command.cli"),
            content.command("tributary-doctor", "doctor.__main__"),
            File("usr/share/bash-completion/completions/tributary", checkout["debs/files/tributary.bash"]),
            *(
                File(f"usr/lib/tributary/{each}", checkout[f"kernel-config/{each}"])
                for each in ("retransmissions.conf", "tributary-firewall.nft")
            ),
            File(f"usr/lib/tributary/{LOW_MARK}", inputs.programs[LOW_MARK]),
            content.command("low-mark", "tributary.kernel.low_mark", "usr/lib/tributary"),
            *content.files(inputs, name, *(f"kernel-config/{each}" for each in _SYSCTLS), "kernel-config/systemd/*"),
            *content.files(inputs, name, "command/systemd/*"),
            *content.files(inputs, name, "debs/files/tributary-common.*", "docs/architecture.md", "docs/api.md"),
            *content.files(inputs, name, "docs/command.md", "docs/operate.md"),
            *content.files(inputs, name, "debs/man/tributary.8.md", "debs/man/tributary-doctor.8.md"),
        ),
        depends=(*_python(inputs), *_libraries(inputs, wheels)),
        # What the doctor asks; iproute2 also for its libbpf, which tributary-low-mark calls.
        recommends=("iproute2", "nftables"),
        # Accounts are for those who want them as metrics; the firewall is for those who say whom it lets in.
        units=(
            Unit("tributary-retransmissions.service"),
            Unit("tributary-mptcp.service"),
            Unit("tributary-low-mark.service"),
            Unit("tributary-doctor.timer"),
            Unit("tributary-accounts.timer", enabled=False),
            Unit("tributary-firewall.service", Upgrade.LEAVE, enabled=False),
        ),
        group="tributary",
        sysctl=_SYSCTLS,
    )


def _converter(inputs: Inputs) -> Package:
    name, checkout = "tributary-converter", inputs.checkout
    units = ["tributary-converter.service"]
    if inputs.release.suite.mptcp_sockets:
        units.insert(0, "tributary-converter.socket")  # an older systemd would make it a socket without MPTCP
    return Package(
        name,
        "Multipath TCP converter for any TCP application",
        "Ends Multipath TCP (RFC 8684) on the clients' side and speaks plain TCP to\n"
        "servers, so that clients use all of their links with servers that know nothing\n"
        "of it. Clients speak HTTP, SOCKS5 or 0-RTT TCP Convert (RFC 8803), or netfilter\n"
        "brings their connections. As installed it serves this machine alone.",
        architecture=inputs.release.architecture.name,
        files=(
            File(f"usr/bin/{name}", inputs.programs[name], 0o755),
            File("usr/lib/systemd/system/tributary-converter@.service", checkout[f"converter/systemd/{name}.service"]),
            *content.files(inputs, name, *(f"converter/systemd/{unit}" for unit in units), "converter/systemd/*.d/*"),
            *content.files(inputs, name, "debs/*/tributary-converter.*", "debs/files/converter.toml"),
            *content.files(
                inputs, name, *(f"docs/converter{page}.md" for page in ("", "-reference", "-chains", "-offload"))
            ),
            *content.files(inputs, name, "converter/examples/*.toml"),
        ),
        depends=elf.depends("the converter", inputs.programs[name], inputs.release),
        # It runs without: for the kernel parameters, and for a log that does not fill the disk.
        recommends=("tributary-common", "logrotate"),
        suggests=("nftables",),
        # The socket is for those who set its addresses; enabled, it would open a port that nothing listens on.
        units=tuple(Unit(unit, Upgrade.HAND_OVER, enabled=unit.endswith(".service")) for unit in units),
        instances="tributary-converter@*.service",
        group="tributary-settings",
        # systemd puts the logs of a dynamic user into private/, behind a link.
        leftovers=(
            *(f"var/log/{folder}tributary-converter{tenant}" for folder in ("", "private/") for tenant in ("", "-*")),
            "etc/systemd/system/multi-user.target.wants/tributary-converter@*.service",
            "etc/tributary/front",
        ),
    )


def _throttler(inputs: Inputs) -> Package:
    name = "tributary-throttler"
    return Package(
        name,
        "limits the rate of chosen subflows of Multipath TCP sessions",
        "Sees the subflows of Multipath TCP sessions as they come and go, decides by a\n"
        "policy which of them to hold to a rate, and puts those into classes of their\n"
        "own, so that Multipath TCP moves their load to the other paths. No connection\n"
        "breaks. As installed its policy throttles nothing.",
        files=(
            content.command(name, "throttler.cli"),
            *content.files(inputs, name, "throttler/systemd/*", "debs/*/tributary-throttler.*", "tc-policies/*.toml"),
            *content.files(inputs, name, "docs/throttler.md", "docs/throttler-reference.md", "docs/steering.md"),
            *content.files(inputs, name, "debs/files/throttler.toml"),
        ),
        # nftables for nft(8), which it asks for, and the library, which it calls; iproute2 for tc(8) and ip(8).
        depends=(*_modules(inputs), "iproute2", "libnftables1", "nftables"),
        # A restart takes the holds away and puts them back, and breaks no connection.
        units=(Unit("tributary-throttler.service", Upgrade.RESTART),),
        leftovers=("var/lib/tributary/throttler",),
    )


def _squid(inputs: Inputs) -> Package:
    name = "tributary-squid"
    return Package(
        name,
        "Squid as an HTTP proxy between Multipath TCP and plain TCP",
        "Runs Debian's Squid as a proxy that speaks Multipath TCP to clients and plain\n"
        "TCP to servers, by a configuration made from a few settings, behind a guard of\n"
        "nftables. It takes the place of the service squid.service. As installed it\n"
        "serves this machine alone.",
        files=(
            content.command(name, "squid.__main__"),
            *content.files(inputs, name, "squid/systemd/*", "debs/*/tributary-squid.*", "debs/files/squid.toml"),
            *content.files(inputs, name, "docs/squid.md"),
        ),
        # mptcpize makes Squid's listeners MPTCP ones; nft loads the guard; ip and ss tell about this machine.
        depends=(*_modules(inputs), "iproute2", "mptcpize", "nftables", "squid"),
        suggests=("logrotate",),
        units=(Unit("tributary-squid.service", Upgrade.KEEP),),
        replaces_unit="squid.service",
        leftovers=("var/lib/tributary/squid",),
    )


_HANDOFF_SYSCTL = "91-tributary-handoff.conf"


def _handoff(inputs: Inputs) -> Package:
    name = "tributary-handoff"
    upgrades = {"switch": Upgrade.RESTART, "backend": Upgrade.KEEP}  # a front puts its rules into a new switch again
    programs = {f"tributary-{each}": inputs.programs[f"tributary-{each}"] for each in upgrades}
    needed = {depend for each, built in programs.items() for depend in elf.depends(each, built, inputs.release)}
    return Package(
        name,
        "switch and back end for answers that do not pass the proxy",
        "A front, which is a listener of tributary-converter, hands HTTP clients'\n"
        "connections over to the back ends that have the objects. tributary-backend\n"
        "answers there, from a folder or for another HTTP server, and tributary-switch\n"
        "leads the packets. As installed neither runs.",
        architecture=inputs.release.architecture.name,
        files=(
            *(File(f"usr/bin/{each}", built, 0o755) for each, built in programs.items()),
            *(file for each in programs for file in content.files(inputs, name, f"debs/man/{each}.8.md")),
            *content.files(inputs, name, "handoff/systemd/*", "debs/*/tributary-handoff.*"),
            *content.files(inputs, name, "debs/files/switch.conf", "debs/files/backend.conf"),
            *content.files(inputs, name, *(f"docs/handoff{page}.md" for page in ("", "-choice", "-internals"))),
        ),
        # nft(8), which the switch asks for.
        depends=(*sorted(needed), "nftables"),
        # Not enabled: a machine is one or the other, and their addresses are for whoever runs it to say.
        units=tuple(Unit(f"tributary-{each}.service", upgrade, enabled=False) for each, upgrade in upgrades.items()),
        sysctl=(_HANDOFF_SYSCTL,),
        leftovers=tuple(f"etc/tributary/{each}" for each in upgrades),
    )


def _overlay(inputs: Inputs) -> Package:
    name, parts = "tributary-overlay", ("", "-agent", "-controller")
    return Package(
        name,
        "chains of Multipath TCP converters, chosen by measured delays",
        "Agents on converters measure the delays between them, and a controller says by\n"
        "which chain of them a transfer is fastest; etcd has the state of all. A service\n"
        "reads it, so that tributary(8) and the console of this machine show the overlay\n"
        "on a map. As installed nothing of it runs.",
        architecture=inputs.release.architecture.name,
        files=(
            File(f"usr/bin/{name}", inputs.programs[name], 0o755),
            content.command("overlay-reader", "overlay.reader.cli", "usr/lib/tributary"),
            *content.files(inputs, name, "overlay/systemd/*", "debs/*/tributary-overlay.*", "debs/files/overlay*.conf"),
            *content.files(inputs, name, "docs/overlay*.md"),
        ),
        depends=(*elf.depends("the overlay", inputs.programs[name], inputs.release), *_modules(inputs)),
        # For a controller that runs an etcd of its own.
        suggests=("etcd-server",),
        # Not enabled: what this machine is, and where etcd is, is for whoever runs the overlay to say.
        units=tuple(Unit(f"tributary-overlay{part}.service", Upgrade.RESTART, enabled=False) for part in parts),
        leftovers=("var/lib/tributary-overlay", *(f"etc/tributary/overlay{part}" for part in parts)),
    )


def _router(inputs: Inputs) -> Package:
    name = "tributary-router"
    return Package(
        name,
        "keeps a home router's access links right for Multipath TCP",
        "A daemon for a router with two or more access links: policy routing and\n"
        "Multipath TCP endpoints follow the links as they come, go and change address,\n"
        "so that each session has a subflow over every link that works.",
        files=(
            content.command(name, "router.cli"),
            *content.files(inputs, name, "router/systemd/*", "debs/*/tributary-router.*", "debs/files/router.toml"),
            *content.files(inputs, name, "docs/router.md", "docs/link-*.md", "docs/links.md"),
        ),
        # For tunnels, where the router is enrolled, for rates of links; libnftables for IPv6 that is translated, what
        # devices use and by-passes. Else the daemon speaks to the kernel by itself, and iproute2 is for those who look
        # at what it made.
        depends=_modules(inputs),
        recommends=("iproute2", "libnftables1", "wireguard-tools"),
        suggests=("nftables",),
        # Not enabled: which links there are is for whoever runs the router to say. What it made outlives a restart.
        units=(Unit("tributary-router.service", Upgrade.RESTART, enabled=False),),
        leftovers=("var/lib/tributary/router",),
    )


def _gateway(inputs: Inputs) -> Package:
    name = "tributary-gateway"
    return Package(
        name,
        "lets home routers in by keys, through tunnels of WireGuard",
        "Gives each home router a tunnel over each of its links, in which subflows of\n"
        "Multipath TCP run to the converter, and one for everything else, which leaves\n"
        "by address translation. Routers are enrolled, listed, given new keys and\n"
        "revoked one by one. As installed it lets nobody in.",
        files=(
            content.command(name, "gateway.cli"),
            *content.files(inputs, name, "gateway/systemd/*", "debs/*/tributary-gateway.*", "debs/files/gateway.toml"),
            *content.files(inputs, name, "docs/gateway-routers.md", "docs/forwarding.md"),
        ),
        # ip, ss, nft, wg; conntrack(8) forgets what was translated for a revoked router; dnsmasq(8) looks names up.
        depends=(*_modules(inputs), "conntrack", "dnsmasq-base", "iproute2", "nftables", "wireguard-tools"),
        # For a kernel without WireGuard, as in some containers.
        recommends=("wireguard-go",),
        # Not enabled: where routers find it is for whoever runs the machine to say. A restart would stop all tunnels
        # for a moment; what changes peers and rules is the new program from the next minute on.
        units=(
            Unit("tributary-gateway.service", Upgrade.KEEP, enabled=False),
            Unit("tributary-gateway-control.service", Upgrade.RESTART, enabled=False),
        ),
        leftovers=("var/lib/tributary/gateway",),
    )


def _console(inputs: Inputs) -> Package:
    name, checkout = "tributary-console", inputs.checkout
    page = (path for path in checkout if path.startswith("console/static/"))
    return Package(
        name,
        "page to look at a gateway or a home router and to steer it by",
        "Shows links, paths and sessions of Multipath TCP as they change, lets who has\n"
        "logged in limit a path or change a link's use, and keeps a journal of changes.\n"
        "It runs without privileges beside the services. As installed it serves this\n"
        "machine alone, 127.0.0.1:8480.",
        files=(
            content.command(name, "console.cli"),
            content.command("doctor-fix", "doctor.on_request", "usr/lib/tributary"),
            *(File(f"{PYTHON}/{path}", checkout[path]) for path in page),
            *content.files(inputs, name, "console/systemd/*", "debs/*/tributary-console.*", "debs/files/console.toml"),
            *content.files(inputs, name, "docs/console.md", "docs/console-home.md"),
        ),
        # libargon2 for the password, which it calls.
        depends=(*_modules(inputs), "libargon2-1"),
        # For a certificate of its own.
        suggests=("openssl",),
        units=(Unit("tributary-doctor-fix.socket"), Unit("tributary-console.service")),
        group="tributary-steer",
        leftovers=("var/lib/tributary-console", "var/lib/private/tributary-console"),
    )


def _image(inputs: Inputs) -> Package:
    name = "tributary-image"
    commands = {
        "tributary-firstboot": "image.firstboot.__main__",
        "tributary-first-start": "image.firstboot.page.__main__",
        "tributary-upgrade": "image.upgrade.__main__",
    }
    return Package(
        name,
        "what makes a box of an image of Tributary when it boots",
        "For images that scripts/build-image makes: the settings on the boot partition,\n"
        "tributary.toml, become the files and units of a gateway or of a home router.\n"
        "Images with two slots are upgraded as a whole, with a way back. On a machine\n"
        "that no such image made it does nothing.",
        files=(
            *(content.command(each, module) for each, module in commands.items()),
            # Called by RAUC and by hooks of the kernel (image/make/files).
            content.command("firmware-slots", "image.upgrade.firmware", "usr/lib/tributary"),
            *content.files(inputs, name, "image/*/tributary-*.service", "image/*/*.d/*", "debs/*/tributary-image.*"),
            *content.files(inputs, name, "image/firstboot/tributary.toml"),
            *(file for each in commands for file in content.files(inputs, name, f"debs/man/{each}.8.md")),
            *content.files(inputs, name, "docs/install-pi.md", "docs/first-start.md", "docs/upgrade-image.md"),
            *content.files(inputs, name, "docs/clients.md", "docs/home.md", "docs/lan*.md", "docs/wan-links.md"),
        ),
        # The console for its password's libargon2 and its look, which the first-start page has; growpart(1),
        # resize2fs(8), ip(8), nft(8), ssh-keygen(1), udevadm(8), and who reads the files that it writes.
        depends=(
            *_modules(inputs),
            *(f"tributary-console (= {inputs.release.version})", "cloud-guest-utils", "e2fsprogs", "iproute2"),
            *("nftables", "openssh-server", "sudo", "systemd-resolved", "udev", "wpasupplicant"),
        ),
        # rauc where there are two slots: tributary-upgrade calls it.
        suggests=("dnsmasq", "rauc"),
        # The LAN is served when the settings say so, and the page when they say nothing.
        units=(
            Unit("tributary-firstboot.service", Upgrade.BOOT),
            Unit("tributary-firstboot-report.service", Upgrade.BOOT),
            Unit("tributary-first-start.service", Upgrade.BOOT, enabled=False),
            Unit("tributary-lan.service", Upgrade.BOOT, enabled=False),
            Unit("tributary-upgrade-confirm.service", Upgrade.BOOT),
            Unit("tributary-upgrade-back.service", Upgrade.BOOT),
        ),
        leftovers=("var/lib/tributary/firstboot", "var/lib/tributary/upgrade"),
    )


def _modules(inputs: Inputs) -> tuple[str, ...]:
    """What a command in Python needs; tributary-common says which Python."""
    return (f"tributary-common (= {inputs.release.version})", "python3")


def _python(inputs: Inputs) -> tuple[str, ...]:
    """This suite's Python and no other: the compiled wheels are for it alone."""
    major, minor = inputs.release.suite.python
    return (f"python3 (>= {major}.{minor}~)", f"python3 (<< {major}.{minor + 1})")


def _libraries(inputs: Inputs, wheels: tuple[File, ...]) -> tuple[str, ...]:
    needed = {
        depend
        for file in wheels
        if file.path.endswith(".so")
        for depend in elf.depends(file.path, file.content, inputs.release)
    }
    return tuple(sorted(needed))
