from dataclasses import replace
from pathlib import Path

import pytest

from command import link
from router import api
from router.cli import main
from router.live_settings import LiveSettings
from router.settings import RouterSettings
from router.shaping.shaper import LinkShapers
from router.state.owned import NOTHING_OWNED
from router.state.reconciler import Reconciler
from tests.refusals import command_error
from tests.unit.router.enrolled import FIRST
from tests.unit.router.house import DSL, LTE, SETTINGS, after, changed, cut, house, settings
from tests.unit.tributary.wireguard.test_enrolment import GIVEN
from tributary.daemons.logs import timestamp
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import check
from tributary.wireguard.enrolment import Enrolment, text


def test_check_says_valid_or_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "router.toml"
    file.write_text(SETTINGS)
    assert main(["check", str(file)]) == 0
    assert capsys.readouterr().out == "valid\n"
    file.write_text("[wan.dsl]\n")
    with command_error(Exit.USAGE):
        main(["check", str(file)])
    with command_error(Exit.NO_INPUT):
        main(["check", str(tmp_path / "none.toml")])


def test_help_names_every_key_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    for word in ("interface:", "accepted_addresses:", "failures:", "exit codes:", "[wan.NAME]", "[[enrolment]]"):
        assert word in said
    tables = {"wan", "mptcp", "probe", "enrolment", "tunnels", "metrics"}
    assert all(f"\n    {key}: " in said for key in RouterSettings.model_fields.keys() - tables)


def test_a_file_with_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "router.toml"
    file.write_text(SETTINGS + text(check(GIVEN, Enrolment, "test")))
    file.chmod(0o640)
    with pytest.raises(CommandError, match=f"chmod 600 {file}"):
        main(["check", str(file)])
    file.chmod(0o600)
    assert main(["check", str(file)]) == 0


def test_a_clock_that_is_set_makes_no_state_older_or_younger() -> None:
    """A home router without a battery-backed clock is hours behind until a time server answers."""
    reconciler = Reconciler(settings(), NOTHING_OWNED)
    reconciler.reconcile(house(DSL, LTE), 1000.0, 5.0)
    reconciler.reconcile(house(DSL, LTE), 90_000.0, 10.0)
    for wall in (90_005.0, 500.0):
        (dsl, _) = api.status(reconciler, wall, 15.0)["wan"]
        assert (dsl["state_age_s"], dsl["since"]) == (10.0, timestamp(wall - 10))


def test_status_shows_each_link_with_what_it_has_or_why_it_has_nothing() -> None:
    reconciler = Reconciler(settings(SETTINGS + '[probe]\ntarget = "203.0.113.5:5124"'), NOTHING_OWNED)
    seen = house(DSL, LTE)
    seen = after(seen, reconciler.reconcile(seen, 0.0, 0.0).operations)
    reconciler.health.record("lte", 0.0312)
    reconciler.reconcile(changed(seen, house(cut(DSL), LTE)), 100.0, 100.0)
    dsl, lte = api.status(reconciler, 130.0, 130.0)["wan"]
    assert (dsl["state"], dsl["reason"], dsl["state_age_s"], dsl["endpoints"]) == ("down", "no carrier", 30.0, [])
    probe = {"rtt_ms": 31.2, "failures": 0, "probes": 1, "unanswered": 0, "loss": 0.0}
    assert (lte["state"], lte["state_age_s"], lte["probe"]) == ("up", 130.0, probe)
    assert lte["endpoints"] == [{"id": 129, "address": "10.64.0.2"}, {"id": 130, "address": "2001:db8:2::2"}]
    extra = {"shaper": None, "set": {"use": "backup"}}
    said = "\n".join(line for each in (dsl, lte) for line in link.lines(each | extra, 80))
    assert "dsl: down, no carrier" in said
    assert "probe 31.2 ms" in said and "endpoint 129 for 10.64.0.2" in said and "set at run time: use" in said
    assert all(len(line) <= 80 for line in said.splitlines())


@pytest.mark.parametrize("gateway", [text(FIRST), '[probe]\ntarget = "203.0.113.5:5124"'])
def test_status_says_that_a_link_of_ipv6_alone_leads_to_no_gateway_of_ipv4(gateway: str) -> None:
    reconciler = Reconciler(settings(SETTINGS + gateway), NOTHING_OWNED)
    reconciler.reconcile(house(DSL, replace(LTE, addresses=LTE.addresses[1:], gateways=LTE.gateways[1:])), 0.0, 0.0)
    found = [[each["code"] for each in link["diagnosis"]] for link in api.status(reconciler, 1.0, 1.0)["wan"]]
    assert found[0] != found[1] == ["other-ip-version"]


def test_status_shows_what_is_known_of_a_link_and_settings_by_their_whole_path() -> None:
    reconciler = Reconciler(settings(), NOTHING_OWNED)
    reconciler.reconcile(house(replace(DSL, addresses=())), 0.0, 0.0)
    dsl, lte = api.status(reconciler, 5.0, 5.0)["wan"]
    assert (dsl["interface"], dsl["reason"]) == ("eth0", "no global address")
    assert (lte["interface"], lte["driver"], lte["reason"]) == (None, None, "no interface fits its rule")
    given = settings()
    live, reconciler = LiveSettings(Path("router.toml"), given), Reconciler(given, NOTHING_OWNED)
    shown = api.Status(live, reconciler, LinkShapers(given, lambda act: act())).document(0.0)
    assert shown["settings"] == str(Path.cwd() / "router.toml")


def test_status_says_how_fast_a_link_goes_now_and_what_its_packets_wait_in() -> None:
    rates = 'download = "50mbit"\nupload = "8mbit"\nadapt = true\n[probe]\ntarget = "203.0.113.5:5124"\n'
    reconciler = Reconciler(settings(SETTINGS + rates), NOTHING_OWNED)
    reconciler.reconcile(house(DSL, LTE), 0.0, 0.0)
    shapers = LinkShapers(reconciler.settings)
    shaped = [shapers.status(link) for link in reconciler.links]
    _, lte = api.status(reconciler, 1.0, 1.0)["wan"]
    assert shaped[0] is None and shaped[1] is not None and shaped[1]["max_download"] == 50_000_000
    now = shaped[1] | {"download": 9_000_000, "upload": 8_000_000, "qdisc": "CAKE", "idle_rtt_ms": 41.2}
    lines = link.lines({**lte, "shaper": now, "set": {}}, 200)
    said = " ".join(line.strip() for line in lines)
    assert "download 9.00 Mbit/s of 50.0 Mbit/s, upload 8.00 Mbit/s, queue CAKE, 41.2 ms when idle" in said
