"""What a policy would install, as text; nothing is read from the kernel, nothing is changed."""

from throttler.policy.decide import Assignment, EvaluationContext, Matcher
from throttler.policy.model import Policy, Rule
from throttler.policy.values import SubflowType
from throttler.sessions import Session, Subflow
from throttler.shaping import render
from throttler.shaping.plan import GRACE, ClassTable
from throttler.shaping.render import Kernel, Leaf
from throttler.shaping.topology import UPLOAD_DEVICE, Topology, topology
from tributary.kernel.tc import add_ifb
from tributary.mptcp.four_tuple import FourTuple

# Documentation addresses (RFC 5737, RFC 3849).
_EXAMPLES = (
    FourTuple("192.0.2.1", 3128, "198.51.100.2", 40000),
    FourTuple("2001:db8::1", 3128, "2001:db8:1::2", 40000),
)


def text(policy: Policy) -> str:
    """All scripts in order: start, one subflow per rule and address family throttled and released, stop."""
    stands, kernel = topology(policy), Kernel()
    ups = (f"{command}\n" for command in add_ifb(UPLOAD_DEVICE))
    parts = [
        "## When it starts\n",
        _script("ip -batch -", "".join(ups)) if UPLOAD_DEVICE in stands.devices else "",
        _script("tc -batch -", render.roots(Topology(), stands) + render.root_classes(Topology(), stands, kernel)),
        _script("nft -f -", render.tables(Topology(), stands)),
        *(_held(policy, rule, stands) for rule in policy.rules),
        "## When it stops\n",
        _script("nft -f -", render.no_tables()),
        _script("tc -batch -", "".join(map(render.no_root, sorted(stands.devices - {UPLOAD_DEVICE})))),
        _script("ip -batch -", f"link del {UPLOAD_DEVICE}\n") if UPLOAD_DEVICE in stands.devices else "",
    ]
    return "\n".join(filter(None, parts))


def _held(policy: Policy, rule: Rule, stands: Topology) -> str:
    if not rule.acts:
        return f"## Rule {rule.name} throttles nothing\n"
    interface = policy.interfaces_of(rule)[0]
    parts = [_life(rule, interface, _holds(policy, rule, interface, example), stands) for example in _EXAMPLES]
    return "\n".join(parts)


def _holds(policy: Policy, rule: Rule, interface: str, example: FourTuple) -> tuple[Assignment, ...]:
    subflow = Subflow(example, interface, rule.subflow_type is not SubflowType.JOIN, bool(rule.backup), 0)
    return Matcher(policy).assignments(
        rule, Session(0x1A2B3C4D, 0, (subflow,)), subflow, EvaluationContext(frozenset((rule.name,)))
    )


def _life(rule: Rule, interface: str, assignments: tuple[Assignment, ...], stands: Topology) -> str:
    table = ClassTable()
    assignment = table.step({1: assignments}, now=0)
    release = table.step({1: ()}, now=0)
    close = table.step({}, now=GRACE)
    without = render.before_elements(assignment, stands, Kernel(Leaf.TBF))
    leaves = "".join(f"# without fq_codel in the kernel: {line}\n" for line in without.splitlines() if " tbf " in line)
    return "\n".join(
        (
            f"## When rule {rule.name} throttles the subflow {assignments[0].subflow} (an example) on {interface}\n",
            _script("tc -batch -", render.before_elements(assignment, stands, Kernel()) + leaves),
            _script("nft -f -", render.elements(assignment)),
            "## When it releases it, and its class is empty\n",
            _script("nft -f -", render.elements(release)),
            _script("tc -batch -", render.after_elements(release, stands, Kernel())),
            f"# {GRACE // 10**9} s later\n" + _script("tc -batch -", render.after_elements(close, stands, Kernel())),
        )
    )


def _script(tool: str, lines: str) -> str:
    return f"# {tool}\n{lines}"
