import json

import pytest

from tests.refusals import command_error
from tests.unit.throttler.answer import COUNTERS, answer, document, unread
from throttler.service.status import Status
from tributary.api.answers import decoded
from tributary.api.places import THROTTLER
from tributary.settings.errors import Exit


def test_json_and_back_is_the_same_member_by_member_and_members_of_later_versions_are_ignored() -> None:
    assert json.loads(answer().model_dump_json()) == document()
    assert decoded(Status, document(), THROTTLER) == answer()
    classes = [each | {"weather": "fine"} for each in document()["classes"]]
    assert decoded(Status, document(classes=classes, weather="fine"), THROTTLER) == answer()


def test_a_class_that_could_not_be_read_has_null_for_each_counter() -> None:
    encoded = json.loads(unread(answer()).model_dump_json())
    (entry,) = encoded["classes"]
    assert {name: entry[name] for name in COUNTERS} == dict.fromkeys(COUNTERS)
    assert (entry["id"], entry["rate"]) == ("5452:1", "5mbit")
    assert decoded(Status, encoded, THROTTLER) == unread(answer())


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
    with command_error(
        Exit.UNAVAILABLE, f"the throttler does not answer in words of this version: restart it ({where}"
    ):
        decoded(Status, document(**changed), THROTTLER)
