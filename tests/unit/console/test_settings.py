from pathlib import Path

import pytest

from console.settings import ConsoleSettings, read
from tributary.paths import ROOT
from tributary.settings.errors import CommandError


def test_what_the_package_brings_are_the_defaults_and_pages_are_at_https_with_any_certificate() -> None:
    assert read(ROOT / "debs/files/console.toml") == ConsoleSettings()
    assert tuple(ConsoleSettings().addresses) == (("127.0.0.1", 8480),)
    made = (ConsoleSettings(), ConsoleSettings(own_certificate=True), ConsoleSettings(certificate="/x", key="/y"))
    assert [each.scheme for each in made] == ["http", "https", "https"]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("listen = []", "listen"),
        ('listen = ["gateway.example"]', "listen"),
        ('listen = "127.0.0.1"', "listen"),
        ('listen = ["127.0.0.1:0"]', "listen"),
        ('listen = ["127.0.0.1", "127.0.0.1:8480"]', "each once"),
        ('listen = ["::1", "[0:0::1]:8480"]', "each once"),
        ('names = ["a:b:c"]', "names"),
        ('reading = "yes"', "reading"),
        ('certificate = "/x.pem"', "certificate and key"),
        ('own_certificate = true\ncertificate = "/x.pem"\nkey = "/y.pem"', "own_certificate: accepted"),
        ('password_hash = "correct horse"', r"password_hash = '\(not shown\)'"),
        ("lisen = []", "lisen"),
    ],
)
def test_what_is_not_accepted_is_named(text: str, wrong: str, tmp_path: Path) -> None:
    file = tmp_path / "console.toml"
    file.write_text(text)
    with pytest.raises(CommandError, match=wrong):
        read(file)


def test_addresses_have_ports(tmp_path: Path) -> None:
    file = tmp_path / "console.toml"
    file.write_text('listen = ["192.168.1.1", "[fd00::1]:80"]\nnames = ["Box.example"]\n')
    assert tuple(read(file).addresses) == (("192.168.1.1", 8480), ("fd00::1", 80))
    assert read(file).names == ("box.example",)
    assert read(file).hosts == ["192.168.1.1", "fd00::1", "box.example"]
    assert ConsoleSettings(listen=("0.0.0.0", "[::]:443"), names=("box:443",)).hosts == ["box"]
