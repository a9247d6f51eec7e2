"""Links of the pages lead somewhere, the index has every page of docs/, and all but references are short."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from image.firstboot import gateway
from squid.settings import SquidSettings
from tributary.paths import ROOT

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md")), DOCS / "results/README.md"]
INDEX = (DOCS / "README.md").read_text()
CLIENTS = (DOCS / "clients.md").read_text()
MOST_WORDS = 1200
MOST_COLUMNS = 100
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def linked(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", text)


def anchors(page: Path) -> set[str]:
    """The fragments of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_page
def test_every_link_leads_somewhere(page: Path) -> None:
    inside = [link for link in linked(page.read_text()) if "://" not in link]
    broken = []
    for link in inside:
        path, _, fragment = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (fragment and fragment not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_the_index_links_every_page() -> None:
    pages = {page.name for page in DOCS.glob("*.md")} - {"README.md"}
    assert pages - set(linked(INDEX)) == set()


@every_page
def test_a_page_is_short_unless_it_says_at_once_that_it_is_a_reference(page: Path) -> None:
    """Words are what ``wc -w`` counts."""
    text = page.read_text()
    assert len(text.split()) <= MOST_WORDS or "reference" in "\n".join(text.splitlines()[:6])


def prose(text: str) -> list[str]:
    """The lines of a page without code blocks, tables, and the targets of links."""
    lines = re.sub(r"(?ms)^```.*?^```$", "", text).splitlines()
    kept = [line for line in lines if not line.startswith("    ") and not line.lstrip().startswith("|")]
    return [re.sub(r"\]\([^)]*\)", "]", line) for line in kept]


@every_page
def test_lines_of_prose_fit_a_terminal(page: Path) -> None:
    assert [line for line in prose(page.read_text()) if len(line) > MOST_COLUMNS] == []


@every_page
def test_a_page_begins_with_a_title_and_a_paragraph(page: Path) -> None:
    title, blank, first, *_ = page.read_text().splitlines()
    assert title.startswith("# ") and blank == "" and re.match(r"[A-Z*`]", first)


def test_files_that_name_a_page_name_one_that_is_there() -> None:
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "grep", "-IohE", r"docs/[a-z-]+\.md", "--", ":!docs/results"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [name for name in sorted(set(listed.stdout.split())) if not (ROOT / name).exists()] == []


def test_the_ports_for_clients_are_those_of_a_gateway() -> None:
    defaults = (ROOT / "ansible/roles/converter/defaults/main.yml").read_text()
    http, socks, convert = (int(port) for port in re.findall(r"^converter_\w+_port: (\d+)$", defaults, re.MULTILINE))
    assert (http, socks) == (gateway.HTTP_PORT, gateway.SOCKS_PORT)
    squid = SquidSettings.model_fields["port"].default
    assert re.findall(r"^\| (\d+) \|", CLIENTS, re.MULTILINE) == [str(port) for port in (squid, http, socks, convert)]
    assert f"PROXY 192.0.2.1:{http}; PROXY 192.0.2.1:{squid}; DIRECT" in pac_file()


def pac_file() -> str:
    found = re.search(r"(?m)^    function FindProxyForURL(?:.*\n)+?    }$", CLIENTS)
    assert found is not None
    return found[0]


ELSEWHERE = ("example.com", "10.example.com", "fda.example.com", "203.0.113.2", "172.32.0.1", "2001:db8::1")
AT_HOME = (
    *("printer", "printer.local", "10.1.2.3", "172.31.0.1", "192.168.1.1", "127.0.0.1"),
    *("fd00::1", "[fe80::1]", "::1"),
)


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
@pytest.mark.parametrize("host", [*ELSEWHERE, *AT_HOME])
def test_the_pac_file_sends_the_internet_to_the_gateway_and_home_straight_there(host: str) -> None:
    given = """
        const isPlainHostName = host => !/[.:]/.test(host);
        const dnsDomainIs = (host, domain) => host.endsWith(domain);
    """
    asked = f"{given}{pac_file()}\nconsole.log(FindProxyForURL({json.dumps(f'http://{host}/')}, {json.dumps(host)}))"
    answer = subprocess.run(["node", "-e", asked], capture_output=True, text=True, check=True, timeout=30)
    assert (answer.stdout.strip() == "DIRECT") is (host in AT_HOME)
