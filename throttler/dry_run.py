"""What a policy would install, as text for a reader; nothing is asked of the kernel, nothing is changed."""

from throttler.policy.model import Hold, Policy
from throttler.shaping import render
from throttler.shaping.plan import Ledger, Plan
from throttler.shaping.render import Leaf, Link
from throttler.wire.segments import FourTuple

# Documentation addresses (RFC 5737, RFC 3849).
_EXAMPLE4 = FourTuple("192.0.2.1", 3128, "198.51.100.2", 40000)
_EXAMPLE6 = FourTuple("2001:db8::1", 3128, "2001:db8:1::2", 40000)


def text(policy: Policy) -> str:
    """The scripts of a whole life: start, one subflow per rule and address family held and released, stop."""
    holds = [
        Hold(token, example, policy.paths[rule.path].interface, rule.rate, rule.name)
        for rule in policy.rules
        for token, example in enumerate((_EXAMPLE4, _EXAMPLE6))
    ]
    parts = [
        _comment("When it starts"),
        _tc(render.roots(policy.shaped_interfaces)),
        _nft(render.table()),
        *(_held(hold) for hold in holds),
        _comment("When it stops"),
        _nft(render.no_table()),
        _tc(render.no_roots(policy.shaped_interfaces)),
    ]
    return "\n".join(parts)


def _held(hold: Hold) -> str:
    ledger = Ledger()
    add = ledger.plan({hold.token}, {hold})
    remove = Plan(add.tokens, remove=add.add)
    alternative = render.classes(add, {hold.interface: Link(Leaf.TBF)}).splitlines()[-1]
    return "\n".join(
        (
            _comment(f"When rule {hold.rule} holds the subflow {hold.subflow} (an example) on {hold.interface}"),
            _tc(render.classes(add, {hold.interface: Link(Leaf.FQ_CODEL)}))
            + f"# without fq_codel in the kernel: {alternative}\n",
            _nft(render.elements(add)),
            _comment("When it releases it"),
            _nft(render.elements(remove)),
            _tc(render.no_classes(remove)),
        )
    )


def _comment(text: str) -> str:
    return f"## {text}\n"


def _tc(lines: str) -> str:
    return f"# tc -batch -\n{lines}"


def _nft(script: str) -> str:
    return f"# nft -f -\n{script}"
