import pytest

from tests.refusals import command_error
from tests.unit.throttler.answer import COUNTERS, answer, document, unread
from throttler.service.status import decode, encode
from tributary.settings.errors import Exit


def test_json_and_back_is_the_same_member_by_member_and_in_order() -> None:
    encoded = encode(decode(document()))
    assert encoded == document()
    assert [*encoded["classes"][0]] == [*document()["classes"][0]]
    assert decode(encoded) == answer()


def test_a_class_that_could_not_be_read_has_null_for_each_counter() -> None:
    (entry,) = encode(unread(answer()))["classes"]
    assert {name: entry[name] for name in COUNTERS} == dict.fromkeys(COUNTERS)
    assert (entry["class"], entry["rate"]) == ("5452:1", "5mbit")
    assert decode(encode(unread(answer()))) == unread(answer())


def test_members_of_later_versions_are_ignored() -> None:
    assert decode(document(weather="fine")) == answer()


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"classes": [{"device": "wired"}]}, "classes.0"),
        ({"classes": [3]}, "classes.0"),
        ({"sessions": None}, "sessions"),
        ({"uptime_s": "long"}, "uptime_s"),
    ],
)
def test_a_document_of_another_version_is_refused_by_what_differs(changed: dict[str, object], where: str) -> None:
    with command_error(Exit.UNAVAILABLE, f"not of this version ({where}", "): restart the throttler"):
        decode(document(**changed))
