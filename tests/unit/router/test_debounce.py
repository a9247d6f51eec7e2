from router.debounce import LONGEST, QUIET, Debounce


def test_one_look_for_a_burst_when_it_is_over_and_then_all_begins_anew() -> None:
    debounce = Debounce()
    for _ in range(2):
        assert debounce.due is None
        debounce.change(10.0)
        debounce.change(10.02)
        assert debounce.due == 10.02 + QUIET
        debounce.reset()


def test_a_burst_that_does_not_end_is_looked_at_all_the_same() -> None:
    debounce = Debounce()
    for operation in range(100):
        debounce.change(10.0 + operation / 100)
    assert debounce.due == 10.0 + LONGEST
