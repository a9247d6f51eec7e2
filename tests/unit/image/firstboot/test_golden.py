"""What cards come to: each golden NAME.toml with all files and units beside it, in NAME.plan, or, of a card BASE-NAME,
with what differs from those of BASE, in BASE-NAME.diff. Of several bases it is the one with the longest name. What
several cards have alike is in the folder "same", at the path that it has in a system.

To make them anew after a wanted change:
REMAKE_GOLDEN=1 scripts/python -m pytest tests/unit/image/firstboot/test_golden.py
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import TypeGuard

import pytest

from console import settings as console
from gateway.settings import GatewaySettings
from image.firstboot.actions import Action, WriteFile, lines
from image.firstboot.bypass import MOST_TABLES, MOST_VALUES
from image.firstboot.plan import plan
from image.firstboot.reading import read
from image.firstboot.settings import Role
from router.settings import RouterSettings
from squid.settings import SquidSettings
from tests import golden
from tests.unit.image.firstboot.cards import BYPASS, HOME
from tests.unit.image.firstboot.systems import FIREWALL, GOLDEN, facts, texts
from tests.unit.image.miniature import files
from throttler.policy import model
from tributary.settings.files import load

SAME = {f"/{path.relative_to(GOLDEN / 'same')}": path for path in (GOLDEN / "same").rglob("*") if path.is_file()}
CASES = sorted(path.stem for path in GOLDEN.glob("*.toml"))
WORDS = {
    "router-modem": {"end0": "wlan0"},
    "router-pppoe": {"end0": "br-lan"},
    "router-static": {"end0": "eth0", "192.168.77.1": "10.9.0.254", "192.168.77.0/24": "10.9.0.0/24"},
}
"""A card's own in place of its base's: where its LAN is."""
EVERY = pytest.mark.parametrize("name", CASES)
NFT = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("nft") is None, reason="needs nft and root")
DNSMASQ = pytest.mark.skipif(shutil.which("dnsmasq") is None, reason="needs dnsmasq")
VISUDO = pytest.mark.skipif(shutil.which("visudo") is None, reason="needs visudo")
SECRET = re.compile(r'psk=|^ *password "|password=|passphrase=|^ *pin=|secret =|_hash =', re.MULTILINE)


def planned(name: str) -> tuple[Action, ...]:
    """For an image of the role gateway; a card says when it is another one's."""
    return plan(read((GOLDEN / f"{name}.toml").read_bytes(), Role.GATEWAY), facts())


def written(name: str, path: str, folder: Path) -> Path | None:
    """The file that the card makes of ``path``, now in ``folder``."""
    found = [action for action in planned(name) if isinstance(action, WriteFile) and action.path == path]
    if not found:
        return None
    target = folder / Path(path).name
    target.write_text(found[0].text)
    return target


def is_same(action: Action) -> TypeGuard[WriteFile]:
    return isinstance(action, WriteFile) and action.path in SAME and SAME[action.path].read_text() == action.text


def text(name: str) -> list[str]:
    """All that a card comes to."""
    found = ([f"{each}: as in same"] if is_same(each) else lines(each, secrets=True) for each in planned(name))
    return [line for each in found for line in each]


def differences(base: Sequence[str], other: Sequence[str]) -> Iterator[str]:
    """What goes and what comes, behind the action of ``base`` in which that is."""
    action = ""
    for tag, begin, end, its_begin, its_end in SequenceMatcher(None, base, other, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        inside = next(line for line in reversed(base[: begin + 1]) if line and not line.startswith(" "))
        if inside != action:
            yield f"@@ {inside}"
            action = inside
        yield from (f"-{line}" for line in base[begin:end])
        yield from (f"+{line}" for line in other[its_begin:its_end])


@EVERY
def test_the_plan_is_the_golden_one(name: str) -> None:
    base = max((each for each in CASES if name.startswith(f"{each}-")), key=len, default="")
    its = [golden.with_words(line, WORDS.get(name, {})) for line in text(base)] if base else []
    found = differences(its, text(name)) if base else text(name)
    golden.compare(GOLDEN / f"{name}.{'diff' if base else 'plan'}", "".join(f"{line}\n" for line in found))


def test_no_golden_file_is_without_its_card() -> None:
    assert sorted(path.stem for path in GOLDEN.iterdir() if path.suffix in (".plan", ".diff")) == CASES
    assert SAME.keys() == {action.path for name in CASES for action in planned(name) if is_same(action)}


@EVERY
def test_each_part_accepts_its_settings(name: str, tmp_path: Path) -> None:
    if squid := written(name, "/etc/tributary/squid.toml", tmp_path):
        assert load(squid, SquidSettings)
    if throttler := written(name, "/etc/tributary/throttler.toml", tmp_path):
        assert [rule.acts for rule in model.read(throttler).rules] == [False]
    if page := written(name, "/etc/tributary/console.toml", tmp_path):
        assert console.read(page).addresses
    if routers := written(name, "/etc/tributary/gateway.toml", tmp_path):
        assert load(routers, GatewaySettings).name == "gateway.example.net"
    if router := written(name, "/etc/tributary/router.toml", tmp_path):
        assert len(load(router, RouterSettings).wan) >= 2


@EVERY
def test_the_converter_takes_its_settings(name: str, tmp_path: Path, converter_accepts: Callable[[Path], None]) -> None:
    if settings := written(name, "/etc/tributary/converter.toml", tmp_path):
        converter_accepts(settings)


@pytest.mark.parametrize(
    ("path", "command"),
    [
        pytest.param("/etc/tributary/lan.nft", "nft --check --file", marks=NFT, id="nft"),
        pytest.param("/etc/dnsmasq.d/tributary-lan.conf", "dnsmasq --test --conf-file", marks=DNSMASQ, id="dnsmasq"),
        pytest.param("/etc/sudoers.d/tributary", "visudo --check --quiet --file", marks=VISUDO, id="visudo"),
    ],
)
@EVERY
def test_the_program_accepts_its_file(name: str, path: str, command: str, tmp_path: Path) -> None:
    if file := written(name, path, tmp_path):
        subprocess.run(f"{command}={file}".split(), check=True)


@NFT
@EVERY
def test_the_firewall_accepts_who_is_let_in(name: str, tmp_path: Path) -> None:
    assert written(name, "/etc/nftables.d/tributary-site-card.nft", tmp_path)
    (tmp_path / "tributary-site.nft").write_text(files("x86")["/etc/nftables.d/tributary-site.nft"])
    subprocess.run(["nft", "--includepath", str(tmp_path), "--check", "--file", str(FIREWALL)], check=True)


@NFT
@DNSMASQ
def test_the_largest_by_pass_is_accepted_by_dnsmasq_and_nft(tmp_path: Path) -> None:
    """A card with as many tables [[bypass]] as it may have, each with as many values."""
    below = ".".join(["a" * 63] * 3)
    card = HOME
    for number in range(MOST_TABLES):
        lists = {
            "domains": [f"{below}.d{each:03}{'a' * 54}.io" for each in range(MOST_VALUES)],
            "prefixes": [f"11.{number}.{each}.0/24" for each in range(MOST_VALUES)],
            "ports": [f"udp/{1 + 200 * each}-{100 + 200 * each}" for each in range(MOST_VALUES)],
            "devices": [f"02:00:00:00:{number:02x}:{each:02x}" for each in range(MOST_VALUES)],
        }
        card += BYPASS + "".join(f"{key} = {values}\n" for key, values in lists.items())
    for path, text in texts(card).items():
        (tmp_path / Path(path).name).write_text(text)
    subprocess.run(["dnsmasq", "--test", f"--conf-file={tmp_path}/tributary-lan.conf"], check=True)
    subprocess.run(["nft", "--check", "--file", tmp_path / "lan.nft"], check=True)


@EVERY
def test_every_default_route_has_a_metric_of_its_own(name: str) -> None:
    files = (each for each in planned(name) if isinstance(each, WriteFile))
    # Of a line by PPPoE, pppd makes the route of IPv4, and systemd-networkd that of IPv6, by a file of its own.
    found = (
        set(re.findall(r"(?im)^\S*metric[= ](\d+)$", each.text))
        for each in files
        if not each.path.endswith("-ppp.network")
    )
    metrics = [each for each in found if each]
    assert all(len(each) == 1 for each in metrics)
    assert len(set.union(*metrics)) == len(metrics)
    assert min(int(metric) for each in metrics for metric in each) > 8


@EVERY
def test_secrets_are_readable_by_their_owner_alone(name: str) -> None:
    for action in planned(name):
        if isinstance(action, WriteFile) and (SECRET.search(action.text) or action.path.endswith("authorized_keys")):
            assert action.mode == (0o640 if action.path == "/etc/tributary/console.toml" else 0o600)
        shown = "\n".join(lines(action))
        assert not SECRET.search(shown)
        assert "$y$" not in shown and "$7$" not in shown
