"""Objects that a ``with`` block closes."""

from types import TracebackType
from typing import Self


class Closing:
    """A context manager whose ``close`` ends what it has open."""

    def close(self) -> None:
        """Ends it; called at the end of the block, however that ends."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
