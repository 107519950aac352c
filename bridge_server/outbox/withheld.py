"""Messages that an operator changes: meanwhile no lane begins to send them."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Withheld:
    """The rows of messages that must not be begun, and how often a row was given back."""

    def __init__(self) -> None:
        self._rows: Counter[int] = Counter()
        self.given_back = 0
        """A lane that has read rows before this number grew reads them again: they may have changed."""

    def __contains__(self, row_id: int) -> bool:
        return row_id in self._rows

    @contextmanager
    def row(self, row_id: int) -> Iterator[None]:
        """Withhold the row inside the block. Several may do so at once."""
        self._rows[row_id] += 1
        try:
            yield
        finally:
            self.given_back += 1
            self._rows[row_id] -= 1
            if not self._rows[row_id]:
                del self._rows[row_id]
