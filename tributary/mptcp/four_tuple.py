"""The 4-tuple that identifies a subflow."""

from dataclasses import dataclass, replace

from tributary.settings.hosts import joined
from tributary.settings.privacy import Privacy, shortened


@dataclass(frozen=True, order=True, slots=True)
class FourTuple:
    """A subflow seen from the gateway; addresses are text as inet_ntop(3) writes it."""

    local: str
    local_port: int
    remote: str
    remote_port: int

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.local

    @property
    def local_end(self) -> str:
        """Address and port of this side, as in a URL."""
        return joined(self.local, self.local_port)

    @property
    def remote_end(self) -> str:
        """Address and port of the client."""
        return joined(self.remote, self.remote_port)

    def shown(self, privacy: Privacy) -> "FourTuple":
        """The same with what may be shown of the client's address."""
        return self if privacy == "full" else replace(self, remote=shortened(self.remote, privacy))

    def __str__(self) -> str:
        return f"{self.local_end} > {self.remote_end}"
