"""From the options of ``throttler run`` to a running daemon."""

from throttler.options import RunOptions
from throttler.policy.model import Policy
from throttler.service import daemon, state
from throttler.service.metrics_server import listen_address
from throttler.sources import choice
from throttler.sources.source import SourceKind
from tributary.daemons import directories, logs


def run(policy: Policy, options: RunOptions) -> None:
    """Throttle until a signal says stop; raises CommandError."""
    setup = daemon.Setup(
        policy=policy,
        file=options.policy,
        state=options.state_directory or directories.state(state.DIRECTORY),
        metrics=listen_address(options.metrics) if options.metrics else None,
        log=logs.to_stderr(logs.Format(options.log)),
    )
    kind = choice.choose() if options.source == "auto" else SourceKind(options.source)
    daemon.run(setup, lambda: choice.open_source(kind))
