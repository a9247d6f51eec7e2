import pytest

pytest.importorskip("prometheus_client")

from prometheus_client.parser import text_string_to_metric_families

from tests.unit import prometheus
from tests.unit.throttler.answer import answer, session, unread
from throttler.service.metrics import Exporter
from throttler.service.status import Carried, Status

SENT = "class_sent_bytes_total", ("download", "wired-slow")


def followed(name: tuple[str, tuple[str, ...]], *statuses: Status) -> list[float]:
    """A sample's value on the pages that one exporter makes of these, one after the other."""
    exporter = Exporter()
    return [samples(page(exporter, status))[name] for status in statuses]


def page(exporter: Exporter, status: Status) -> bytes:
    """With what the status' subflows have carried; of one without sessions it is not known."""
    carried = [
        Carried((session.token, each.local, each.remote), each.path, each.sent, each.received)
        for session in status.sessions
        for each in session.subflows
    ]
    return exporter.page(status, carried or None)


def samples(page: bytes) -> dict[tuple[str, tuple[str, ...]], float]:
    return prometheus.samples(page, "tributary_throttler")


def test_metrics_have_their_values() -> None:
    values = {
        ("info", ("kernel",)): 1,
        ("uptime_seconds", ()): 12.3,
        ("throttled_subflows", ()): 1,
        ("rule_active", ("lte-quota",)): 0,
        ("rule_matches_total", ("wired-slow",)): 17,
        ("rule_rate_bytes_per_second", ("wired-slow",)): 625_000,
        ("rule_quota_max_used_bytes", ("month", "lte-quota")): 3e9,
        ("path_throttled_subflows", ("wired", "wired")): 1,
        ("path_sent_bytes_total", ("wired",)): 1000,
        ("path_sent_bytes_total", ("",)): 2000,
        ("class_dropped_packets_total", ("download", "wired-slow")): 7,
        ("class_backlog_bytes", ("download", "wired-slow")): 0,
        ("capture_dropped_packets_total", ("wired",)): 2,
        ("events_total", ("joins established",)): 1,
    }
    assert samples(page(Exporter(), answer())).items() >= values.items()


def test_every_metric_has_help_and_no_label_names_a_client() -> None:
    text = page(Exporter(), answer()).decode()
    families = list(text_string_to_metric_families(text))
    assert len(families) > 20 and all(family.documentation for family in families)
    assert not any(secret in text for secret in ("1a2b3c4d", "10.0.1.2", "5452:", "2001:db8"))


def classes(*counts: tuple[str, int | None]) -> Status:
    """An answer with classes of these owners and bytes sent; None is not read."""
    (read,), (not_read,) = answer().classes, unread(answer()).classes
    return answer(
        classes=tuple(
            not_read.model_copy(update={"owner": owner})
            if sent is None
            else read.model_copy(update={"owner": owner, "sent": sent, "backlog": 10})
            for owner, sent in counts
        )
    )


def test_what_was_sent_counts_once_though_classes_end_and_it_could_not_be_read_for_a_while() -> None:
    # At last the class ended, and another one has its name.
    steps = classes(("a", 100), ("b", 50)), classes(("a", 110)), classes(), classes(("c", 5)), classes(("c", 2))
    assert followed(SENT, *steps) == [150, 160, 160, 165, 167]
    unread_between = (classes(("a", count), ("b", 0)) for count in (100, None, 130))
    assert followed(SENT, *unread_between) == [100, 100, 130]

    def sent(count: int | None) -> Status:
        throttled = answer().sessions[0].subflows[0].model_copy(update={"sent": count})
        return answer(sessions=(session(answer(), subflows=(throttled,)),))

    assert followed(("path_sent_bytes_total", ("wired",)), *map(sent, (100, None, 130))) == [100, 100, 130]
    too_many_between = (answer(), answer(sessions=()), answer())
    assert followed(("path_sent_bytes_total", ("wired",)), *too_many_between) == [1000] * 3


CLASS_SERIES = [
    f"class_{each}" for each in ("sent_bytes_total", "sent_packets_total", "dropped_packets_total", "backlog_bytes")
]


def test_a_rule_whose_class_could_not_be_read_has_no_series_of_it_and_of_several_those_that_could_are_summed() -> None:
    exporter = Exporter()
    read, not_read, again = (samples(page(exporter, one)) for one in (answer(), unread(answer()), answer()))
    at = "download", "wired-slow"
    assert [name for name in CLASS_SERIES if (name, at) in read] == CLASS_SERIES
    assert [name for name in CLASS_SERIES if (name, at) in not_read] == []
    assert [one["unread_classes", ()] for one in (read, not_read, again)] == [0, 1, 0]
    assert not_read["classes", ()] == 1 and not_read["rule_classes", ("wired-slow",)] == 1
    found = samples(page(Exporter(), classes(("a", 100), ("b", None))))
    at = "download", "wired-slow"
    assert (found["class_sent_bytes_total", at], found["class_backlog_bytes", at]) == (100, 10)
    assert found["unread_classes", ()] == 1
