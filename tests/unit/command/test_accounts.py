"""Bytes by day, client, router and path, out of the converter's access log."""

import gzip
import json
import os
import resource
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from command import access_log, accounts, box
from command.cli import main
from tests.refusals import command_error, usage_error
from tributary.settings.errors import CommandError, Exit

PLAIN = {"time": 1_764_287_999.5, "client": "10.0.1.2:4000", "up_bytes": 10, "down_bytes": 100}
"""A second before midnight (UTC) of 2025-11-28."""
SIX = {"time": 1_764_288_000.0, "client": "[2001:db8:1:2::3]:4000", "up_bytes": 1, "down_bytes": 2, "paths": None}
MULTIPATH = {
    "time": 1_764_288_001.0,
    "client": "10.0.1.2:4001",
    "up_bytes": 20,
    "down_bytes": 200,
    "paths": [
        {"path": "wired", "client": "10.0.1.2", "up_bytes": 20, "down_bytes": 150},
        {"path": "lte", "client": "10.0.2.2", "up_bytes": 0, "down_bytes": 60},
    ],
}
LINES: list[dict[str, Any]] = [PLAIN, SIX, MULTIPATH]


def written(log: Path, *lines: dict[str, Any]) -> None:
    """The log has these, a JSON object a line as the converter writes them."""
    log.write_text("".join(json.dumps(each, separators=(",", ":")) + "\n" for each in lines))


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The converter's, which is read unless another one is named, on the day of its last lines."""
    monkeypatch.setattr(accounts, "time", lambda: 1_764_291_600.0)
    monkeypatch.setattr(access_log, "LOG", file := tmp_path / "access.log")
    written(file, *LINES)
    return file


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    main(["accounts", *words])
    return capsys.readouterr().out


def told(capsys: pytest.CaptureFixture[str], *words: str) -> list[tuple[Any, ...]]:
    found = json.loads(run(capsys, "--json", *words))["accounts"]
    return [tuple(each.values()) for each in found]


def test_each_path_of_a_connection_and_each_day_has_its_own_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys) == [
        ("2025-11-27", "10.0.1.2", None, None, 1, 10, 100),
        ("2025-11-28", "10.0.1.2", None, "wired", 1, 20, 143),
        ("2025-11-28", "10.0.2.2", None, "lte", 1, 0, 57),
        ("2025-11-28", "2001:db8:1:2::3", None, None, 1, 1, 2),
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--by", "path"], [(None, None, None, None, 2, 11, 102), (None, None, None, "lte", 1, 0, 57)]),
        (["--by", "day"], [("2025-11-27", None, None, None, 1, 10, 100), ("2025-11-28", None, None, None, 2, 21, 202)]),
        (
            ["--by", "client", "--networks", "--sort=-sent", "--limit", "1"],
            [(None, "10.0.1.0/24", None, None, 2, 30, 300)],
        ),
    ],
)
def test_accounts_are_by_what_is_asked(
    capsys: pytest.CaptureFixture[str], words: list[str], expected: list[tuple[Any, ...]]
) -> None:
    assert told(capsys, *words)[: len(expected)] == expected


def test_a_tunnels_address_is_its_routers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    routers = [{"name": "smith", "addresses": ["10.0.1.2", "10.0.2.2"]}]
    monkeypatch.setattr(box, "home_routers", lambda: routers)
    assert told(capsys, "--by", "router")[-1] == (None, None, "smith", None, 2, 30, 300)


def test_without_its_service_no_router_is_known_and_that_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> list[dict[str, Any]]:
        raise CommandError(Exit.UNAVAILABLE, "no gateway runs")

    monkeypatch.setattr(box, "home_routers", away)
    main(["accounts", "--by", "router"])
    assert "no router is known by its address: no gateway runs" in capsys.readouterr().err


def test_bytes_of_a_connections_earlier_requests_count_once(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last line of a connection has the paths of all of it."""
    requests = [{**MULTIPATH, "paths": None, "down_bytes": 1000}, {**MULTIPATH, "down_bytes": 21}]
    written(log, *requests)
    assert sum(account[-1] for account in told(capsys, "--by", "path")) == 1021


def test_a_table_for_other_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--by", "day,path", "--csv").splitlines()[:2] == [
        "day,path,connections,received,sent",
        "2025-11-27,,1,10,100",
    ]


def test_bad_lines_are_counted_and_the_rest_goes_on(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["", "[]", "{}", "no JSON", json.dumps({**PLAIN, "client": "x"}), json.dumps({**PLAIN, "time": 1e300})]
    part = {"client": "10.0.1.2", "up_bytes": 1, "down_bytes": 1}
    wrong += [json.dumps({**PLAIN, "paths": [each]}) for each in (7, {**part, "path": 7}, {**part, "path": []})]
    wrong.append(json.dumps({**PLAIN, "time": 10**17}))
    log.write_bytes("\n".join([*wrong, json.dumps(PLAIN), ""]).encode() + b"\xff\n")
    main(["accounts", "--json"])
    printed = capsys.readouterr()
    assert json.loads(printed.out)["accounts"][0]["sent"] == 100
    assert f"{log}: {len(wrong) + 1} lines are left out" in printed.err


SLOW_GZIP = """\
#!/bin/sh
gzip | { head -c 60; touch half; until [ -e go ]; do sleep 0.01; done; cat; }
"""


@pytest.mark.skipif(shutil.which("logrotate") is None, reason="no logrotate")
def test_while_logrotate_packs_a_log_each_line_is_counted_once(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = log.parent
    log.with_name("access.log.1").write_bytes(log.read_bytes())
    (folder / "slow").write_text(SLOW_GZIP)
    (folder / "slow").chmod(0o755)
    settings = ["rotate 8", "compress", "delaycompress", f"compresscmd {folder}/slow"]
    (folder / "conf").write_text("\n".join([f"{log} {{", *settings, "}", ""]))
    (folder / "conf").chmod(0o644)
    folder.chmod(0o755)
    expected = ("2025-11-28", None, None, None, 4, 42, 404)
    logrotate = subprocess.Popen(["logrotate", "--force", "--state", folder / "state", folder / "conf"], cwd=folder)
    try:
        deadline = time.monotonic() + 10
        while not (folder / "half").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with pytest.raises(EOFError):
            gzip.decompress((folder / "access.log.1.gz").read_bytes())
        assert told(capsys, "--by", "day")[-1] == expected
    finally:
        (folder / "go").touch()
        assert logrotate.wait(10) == 0
    assert (folder / "access.log.2.gz").exists()
    assert told(capsys, "--by", "day")[-1] == expected


def test_what_a_killed_logrotate_leaves_is_not_counted_again(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = gzip.compress(log.read_bytes())
    log.with_name("access.log.1").write_bytes(log.read_bytes())
    log.with_name("access.log.1.gz").write_bytes(packed)
    log.with_name("access.log.1.gz-2025112800.backup").write_bytes(packed)
    main(["accounts", "--by", "day", "--csv"])
    assert capsys.readouterr() == (
        "day,connections,received,sent\r\n2025-11-27,2,20,200\r\n2025-11-28,4,42,404\r\n",
        "",
    )


@pytest.mark.parametrize("cut", [-4, -8, -9])
def test_of_a_log_that_is_not_whole_what_can_be_read_counts_and_the_rest_is_told_of(
    cut: int, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = log.with_name("access.log.2.gz")
    old.write_bytes(gzip.compress(log.read_bytes())[:cut])
    with command_error(Exit.NO_INPUT, "sums are too small"):
        main(["accounts", "--json", "--by", "day"])
    printed = capsys.readouterr()
    assert json.loads(printed.out)["accounts"][-1]["sent"] == 404
    assert f"{old}: cannot be read beyond line 3: what follows is left out: " in printed.err


def test_logs_that_are_renamed_while_they_are_read_are_the_same_ones(log: Path) -> None:
    old, older = (log.with_name(f"access.log.{number}") for number in (1, 2))
    old.write_text("old")
    with access_log.opened([]) as logs:
        old.rename(older)
        log.rename(old)
        log.write_text("new")
        assert sorted(len(list(each.texts(0))) for each in logs) == [1, 3]


def test_logs_that_are_renamed_while_they_are_opened_open_again(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After one of two is open, the other gets its name: the first would be there twice, the second not at all."""
    old = log.with_name("access.log.1")
    old.write_text("old")
    os.utime(old, (0, 0))
    open_file = Path.open

    def rotate(path: Path, mode: str) -> Any:
        monkeypatch.setattr(Path, "open", open_file)
        opened = open_file(path, mode)
        old.rename(log.with_name("access.log.2"))
        log.rename(old)
        log.write_text("new")
        return opened

    monkeypatch.setattr(Path, "open", rotate)
    with access_log.opened([]) as logs:
        assert sorted(each.file.read()[:3] for each in logs) == [b"new", b"old", b'{"t']


def test_what_was_put_aside_is_read_unless_it_is_renamed_meanwhile(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.with_name("access.log.1").symlink_to("gone")
    assert told(capsys, "--by", "day")[-1] == ("2025-11-28", None, None, None, 2, 21, 202)
    (log.parent / "access.log.2.gz").write_bytes(gzip.compress(log.read_bytes()))
    assert told(capsys, "--by", "day")[-1] == ("2025-11-28", None, None, None, 4, 42, 404)


def of_today(log: Path, *words: str) -> dict[tuple[str, ...], float]:
    """Bytes that were sent, by the values of labels, as Prometheus reads them."""
    parser = pytest.importorskip("prometheus_client.parser")
    main(["accounts", str(log), "--metrics", str(file := log.with_name("made.prom")), *words])
    families = parser.text_string_to_metric_families(file.read_text())
    samples = [each for family in families for each in family.samples if each.name == "tributary_accounts_sent_bytes"]
    return {tuple(each.labels[key] for key in sorted(each.labels)): each.value for each in samples}


def test_today_is_written_for_prometheus_by_path_and_router(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box, "home_routers", lambda: [{"name": "smith", "addresses": ["10.0.1.2"]}])
    assert of_today(log) == {("wired", "smith"): 143, ("lte", ""): 57, ("", ""): 2}


def test_a_key_that_is_given_twice_counts_once(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert of_today(log, "--by", "path,path") == {("",): 2, ("lte",): 57, ("wired",): 143}
    assert run(capsys, "--by", "path,path", "--csv").startswith("path,connections,")


def test_as_many_clients_as_are_asked_for_have_series_and_the_others_one(log: Path) -> None:
    words = ("--by", "path", "--clients", "1")
    assert of_today(log, *words) == {("10.0.1.2", "wired"): 143, ("others", "lte"): 57, ("others", ""): 2}
    assert of_today(log, *words, "--networks")["10.0.1.0/24", "wired"] == 143
    written(log, *({**SIX, "client": f"10.0.{each // 250}.{each % 250}:1"} for each in range(1000)))
    found = of_today(log, "--by", "path", "--clients", "20")
    assert (len(found), found["others", ""]) == (21, 980 * 2)


def test_where_the_log_hides_clients_there_is_one(log: Path) -> None:
    written(log, {**SIX, "client": "0.0.0.0:0"})
    assert of_today(log, "--by", "path", "--clients", "5") == {("0.0.0.0", ""): 2}


def test_what_was_put_aside_before_today_is_not_read_for_prometheus(log: Path, tmp_path: Path) -> None:
    old = log.with_name("access.log.2.gz")
    old.write_bytes(b"damaged")
    os.utime(old, (0, 0))
    main(["accounts", "--by", "path", "--metrics", str(tmp_path / "made.prom")])
    assert "tributary_accounts_time_seconds 1.764291" in (tmp_path / "made.prom").read_text()


def before_midnight(seconds: float) -> dict[str, Any]:
    return {**SIX, "time": 1_764_288_000.0 - seconds}


@pytest.mark.parametrize("name", ["access.log", "access.log.2.gz"])
def test_for_prometheus_lines_before_midnight_are_not_parsed(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / name
    written(log, *(before_midnight(seconds) for seconds in range(5000, 0, -1)), SIX, MULTIPATH)
    if log.suffix == ".gz":
        log.write_bytes(gzip.compress(log.read_bytes()))
    parse = accounts.line
    parsed: list[Any] = []

    def line(object_: Any) -> accounts.Line:
        parsed.append(object_)
        return parse(object_)

    monkeypatch.setattr(accounts, "line", line)
    assert of_today(log, "--by", "path") == {("",): 2, ("lte",): 57, ("wired",): 143}
    assert parsed == [SIX, MULTIPATH]


def test_for_prometheus_a_week_in_the_log_is_not_even_read(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    week = [before_midnight(60 * minutes) for minutes in range(7 * 24 * 60, 0, -1)]
    written(log, {"of": "another log"}, *week, SIX)
    assert of_today(log, "--by", "path") == {("",): 2}
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("old", [0, 1, 2, 500, 3000])
def test_for_prometheus_a_line_of_today_may_be_before_older_ones(old: int, log: Path) -> None:
    late = [before_midnight(10)] * 3000
    written(log, *[before_midnight(8000)] * old, SIX, *late, SIX)
    assert of_today(log, "--by", "path") == {("",): 4}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--by", "day,who", "x"], Exit.USAGE, "some of day, client, router, path"),
        (["/nowhere/access.log"], Exit.NO_INPUT, "/nowhere/access.log: cannot be read"),
        (["/etc"], Exit.NO_INPUT, "/etc: cannot be read"),
    ],
)
def test_what_cannot_be_done_is_named(words: list[str], code: Exit, said: str) -> None:
    with command_error(code, said):
        main(["accounts", *words])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--csv", "--json"], "--csv: accepted: without --json"),
        (["--watch"], "--watch: not accepted"),
        (["--metrics", "x", "--json"], "--metrics: accepted: without --csv, --json"),
        (["--metrics", "x", "--by", "day"], "--by: accepted with --metrics: router, path"),
        (["--clients", "5"], "--clients: accepted: with --metrics"),
        (["-", "-"], "-: accepted: once"),
    ],
)
def test_what_does_not_go_together_is_refused(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert said in usage_error(main, ["accounts", *words], capsys)


def test_more_files_than_may_be_open_are_read(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (50, most[1]))
    try:
        assert told(capsys, *[str(log)] * 60, "--by", "day")[-1] == ("2025-11-28", None, None, None, 120, 1260, 12120)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(b"x" * 1000)
    for number, content in enumerate((whole[:-4], whole[:12] + bytes(10) + whole[22:], b"no gzip")):
        file = tmp_path / f"access.log.{number}.gz"
        file.write_bytes(content)
        with command_error(Exit.NO_INPUT, "cannot be read"):
            main(["accounts", str(file)])


def test_without_a_log_it_says_how_there_will_be_one(log: Path) -> None:
    log.unlink()
    with command_error(Exit.NO_INPUT, "set log.access"):
        main(["accounts"])
