"""Which slot a Raspberry Pi starts next, told as the story of its boot partition."""

import pytest

from image.upgrade.choice import Choice, named, naming, states
from tributary.settings.errors import CommandError

CONFIG = "# mine\nos_prefix=a/\narm_64bit=1\n[pi4]\narm_boost=1\n"
NEW = Choice("A", None, frozenset("A"))


def initramfs(choice: Choice) -> Choice:
    """What image/make/files' script does."""
    return Choice(choice.back or choice.first, choice.back, choice.good)


def test_a_slot_is_tried_once_and_stays_when_it_is_found_good() -> None:
    written = NEW.judge("B", "A", good=False)  # RAUC is about to write it
    assert written == NEW
    tried = written.prefer("B", "A")
    assert (tried.first, tried.back) == ("B", "A")
    started = initramfs(tried)
    assert (started.first, started.back) == ("A", "A")
    assert started.judge("B", "B", good=True) == Choice("B", None, frozenset("AB"))


def test_a_slot_that_gets_nowhere_gives_way_to_the_one_before() -> None:
    started = initramfs(NEW.prefer("B", "A"))
    again = initramfs(started)
    assert again.first == "A"
    assert again.judge("A", "A", good=True) == Choice("A", None, frozenset("AB"))


TRIED = NEW.prefer("B", "A")


@pytest.mark.parametrize(
    ("made", "then"),
    [
        pytest.param(initramfs(TRIED).judge("B", "B", good=False), NEW, id="a slot that is given up is not started"),
        # Its boot partition could not be written early.
        pytest.param(TRIED.judge("B", "B", good=True), Choice("B", None, frozenset("AB")), id="one that is good stays"),
        pytest.param(TRIED.judge("A", "A", good=True), TRIED, id="the system that runs calls off no trial"),
        pytest.param(TRIED.judge("B", "A", good=False), NEW, id="what is written anew is not started"),
        pytest.param(TRIED.prefer("A", "A"), Choice("A", None, frozenset("AB")), id="what runs is preferred again"),
        pytest.param(NEW.judge("A", "A", good=False), Choice("A", None, frozenset()), id="the last one keeps starting"),
    ],
)
def test_what_becomes_of_a_choice(made: Choice, then: Choice) -> None:
    assert made == then


def test_the_way_back_is_a_trial_too() -> None:
    upgraded = Choice("B", None, frozenset("AB"))
    back = upgraded.prefer("A", "B")
    assert (back.first, back.back) == ("A", "B")
    assert initramfs(back).judge("A", "A", good=True) == Choice("A", None, frozenset("AB"))


@pytest.mark.parametrize("choice", [NEW, Choice("B", None, frozenset("AB")), Choice("B", "A", frozenset())])
def test_a_choice_is_read_as_it_was_written(choice: Choice) -> None:
    back = naming(CONFIG, choice.back) if choice.back else None
    assert Choice.of(naming(CONFIG, choice.first), back, states(choice.good)) == choice


def test_the_rest_of_a_configuration_is_whoever_wrote_it_and_one_without_a_slot_is_refused() -> None:
    assert naming(CONFIG, "B") == CONFIG.replace("=a/", "=b/")
    assert named("os_prefix=a/\n[all]\nos_prefix=b/\n") == "B"  # the firmware takes the last one
    with pytest.raises(CommandError, match=r"config\.txt names no slot: accepted: a line os_prefix=a/ or os_prefix=b/"):
        named("os_prefix=current/\n")
