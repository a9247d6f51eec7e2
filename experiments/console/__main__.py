"""The command ``demo console``: the console's page beside a testbed with traffic, and Prometheus with our rules."""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console

from experiments.testbed import preflight
from experiments.testbed.appliance import policy_over, start_converter, start_throttler, tune
from experiments.testbed.build import Testbed, standing, take_down_orphans
from experiments.testbed.node import Process, python
from experiments.testbed.profile import add_profile_arguments, changed_profile
from experiments.testbed.server import random_file, start_server
from experiments.testbed.topology import NATIVE_PORT
from tributary.paths import ROOT
from tributary.settings.cli import Arguments, program, run
from tributary.settings.errors import CommandError, Exit
from tributary.settings.hosts import joined

_DESCRIPTION = """\
Builds a network of namespaces (a client with two links, a gateway with the native converter and the throttler, a
server), lets the client download without end, and serves the console's page about the gateway at this machine's
loopback until Ctrl-C. Prints an address that logs in: drag a path's slider, and MPTCP moves the load. Needs root.
"""
_EPILOG = """\
exit codes:
  0 Ctrl-C                64 wrong arguments          69 something is missing
  71 the system refused   75 a demo runs already, or the port is taken
  77 not root
The testbed is removed at the end; after kill -9, scripts/testbed down does it.
"""
_FILE_SIZE, _SEED = 50_000_000, 1
_PORT, _PROMETHEUS = 8480, 9090
_CONVERTER, _THROTTLER, _ASKED = "127.0.0.1:9465", "127.0.0.1:9464", f"127.0.0.1:{_PROMETHEUS}"
"""Where the gateway's programs give their metrics, in its namespace, and Prometheus what it makes of them."""
_RULES = ROOT / "ansible/roles/metrics/files/tributary.rules.yml"
_PROXY = "/usr/lib/systemd/systemd-socket-proxyd"
_DOWNLOADS = (
    "while sleep 0.2; do"
    " curl --silent --limit-rate {rate} --output /dev/null --proxy {proxy} --interface {source} {url}; done"
)
_RATE = "2500k"
"""Of each download, in bytes per second: a path that has room can take over what another one no longer carries."""


def parser() -> Arguments:
    """The arguments of the demo."""
    made = Arguments(prog="demo console", description=_DESCRIPTION, epilog=_EPILOG)
    made.set_handler(_demo)
    add_profile_arguments(made)
    made.add_argument("--port", type=int, default=_PORT, help=f"of 127.0.0.1 (default: {_PORT})")
    made.add_argument("--downloads", type=int, default=3, help="at a time (default: 3)")
    made.add_argument(
        "--prometheus",
        type=int,
        nargs="?",
        const=_PROMETHEUS,
        metavar="PORT",
        help=f"Prometheus as well, with the project's rules, at 127.0.0.1:PORT (default: {_PROMETHEUS})",
    )
    made.add_argument("--name", default="console", help="the testbed's name (default: console)")
    return made


def _demo(profile: Path, changes: Sequence[str], port: int, downloads: int, prometheus: int | None, name: str) -> None:
    preflight.need_all("demo console")
    take_down_orphans()
    console = Console(stderr=True)
    console.print("making the testbed, starting all programs")
    with standing(name, changed_profile(profile, changes)) as testbed, suppress(KeyboardInterrupt):
        tune(testbed)
        start_server(testbed, random_file(_FILE_SIZE, _SEED).path.parent)
        start_converter(testbed, _CONVERTER)
        names = [link.name for link in testbed.topology.links]
        policy = testbed.gateway.write("policy.toml", policy_over(names, {"name": "free", "path": names[0]}))
        start_throttler(testbed, policy, "--metrics", _THROTTLER)
        download(testbed, downloads)
        with _monitored(testbed, prometheus), outside(port) as listener:
            serve = python("console", "run", "--state-directory", str(testbed.gateway.directory / "console"))
            page = activated(testbed, "console", listener, serve).wait_until_ready()
            login = testbed.gateway.run(*python("command", "console", "login")).strip()
            print(f"open {login}", flush=True)
            console.print("Ctrl-C ends it")
            while page.popen.poll() is None:
                time.sleep(0.2)
        raise CommandError(Exit.SYSTEM, f"the console has ended: {page.output()}")


@contextmanager
def _monitored(testbed: Testbed, port: int | None) -> Iterator[None]:
    """If there is a port for it, Prometheus, with the rules that the playbook installs, asks the gateway's programs
    every two seconds.

    Raises CommandError, exit 69 if it is not installed, 71 if it does not begin.
    """
    if port is None:
        yield
        return
    if not (shutil.which("prometheus") and shutil.which(_PROXY)):
        raise CommandError(Exit.UNAVAILABLE, f"not found: prometheus, or {_PROXY}: apt install prometheus systemd")
    gateway = testbed.gateway
    # JSON is YAML.
    settings = {
        "global": {"scrape_interval": "2s", "evaluation_interval": "2s"},
        "rule_files": [str(_RULES)],
        "scrape_configs": [{"job_name": "tributary", "static_configs": [{"targets": [_CONVERTER, _THROTTLER]}]}],
    }
    file = gateway.write("prometheus.json", json.dumps(settings))
    where = (f"--storage.tsdb.path={gateway.directory / 'prometheus'}", f"--web.listen-address={_ASKED}")
    process = gateway.start("prometheus", ["prometheus", f"--config.file={file}", *where])
    process.wait_until(lambda: gateway.listens(_PROMETHEUS))
    with outside(port) as listener, activated(testbed, "proxy", listener, [_PROXY, _ASKED]):
        print(f"Prometheus: http://127.0.0.1:{listener.getsockname()[1]}/alerts", flush=True)
        yield


def download(testbed: Testbed, downloads: int) -> None:
    """Let the client download by Multipath TCP without end, so many files at a time."""
    proxy = f"http://{joined(str(testbed.topology.PROXY4), NATIVE_PORT)}"
    url = f"http://{testbed.topology.SERVER4}/{_FILE_SIZE}-{_SEED}.bin"
    for number in range(downloads):
        link = testbed.topology.links[number % len(testbed.topology.links)]
        line = _DOWNLOADS.format(rate=_RATE, proxy=proxy, source=link.client4, url=url)
        testbed.client.start(f"downloads-{number}", ["mptcpize", "run", "bash", "-c", line])


@contextmanager
def outside(port: int) -> Iterator[socket.socket]:
    """A listener on this machine's loopback; raises CommandError, exit 75."""
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise CommandError(Exit.IN_USE, f"127.0.0.1:{port}: {error.strerror}: take another port") from error
    with listener:
        yield listener


def activated(testbed: Testbed, name: str, listener: socket.socket, command: Sequence[str]) -> Process:
    """Start a program on the gateway that is given its listener (sd_listen_fds(3))."""
    own, log = listener.fileno(), testbed.gateway.directory / f"{name}.log"
    line = f'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@" 3<&{own}'
    inside = testbed.gateway.command(["bash", "-c", line, "bash", *command])
    with log.open("wb") as output:
        popen = subprocess.Popen(inside, stdout=output, stderr=output, pass_fds=[own], start_new_session=True)
    return Process(popen, log)


main = program(parser)

if __name__ == "__main__":
    run(main, "demo console")
