"""The house with a gateway or more, and tunnels there."""

from ipaddress import ip_address

from router.state.owned import OwnershipRecord
from tests.unit.router.house import DSL, LTE, SETTINGS
from tests.unit.router.house import Script as Reconciling
from tests.unit.tributary.wireguard.test_enrolment import GIVEN
from tributary.settings.files import check
from tributary.wireguard.enrolment import Enrolment, text

FIRST = check(GIVEN | {"gateway": "203.0.113.5"}, Enrolment, "test")
SECOND = check(GIVEN | {"gateway": "gateway.example.net:7", "addresses": "10.84.0.32/28"}, Enrolment, "test")


class Script(Reconciling):
    def __init__(self, *enrolments: Enrolment, more: str = "", memory: OwnershipRecord | None = None) -> None:
        super().__init__(None, more + SETTINGS + "".join(map(text, enrolments or (FIRST,))), memory)

    def resolve(self, *addresses: str) -> bool:
        """The second gateway's name is found to have these; whether that is new."""
        found = tuple(map(ip_address, addresses))
        return self.reconciler.gateways.set_resolved({"gateway.example.net": found})

    def fall_silent(self, *links: str, now: float = 0.0) -> list[str]:
        """The gateway fails by these links, and the next one takes its place; the commands that follow."""
        self.failed(*links)
        assert self.reconciler.fail_over(now)
        return self.reconcile()


def answering(more: str = "") -> Script:
    """The gateway answers by both links, and as quickly."""
    script = Script(more=more)
    script.now(DSL, LTE)
    script.answered("dsl", "lte")
    return script
