"""The commits of other processes that this one knows of: a count for each lane of each process.

A commit raises its lane's count in the table `processes`. A ring says from which count to which it brings the
events. So nobody can miss an event without a trace: either the next ring begins above what is known here, or
a look at the table shows more than is known.
"""

from collections.abc import Mapping
from typing import TypeAlias

WritingLane: TypeAlias = tuple[int, int]
"""The number of a process, and one of its lanes."""


class Ledger:
    """The counts up to which the events of every lane have been heard."""

    def __init__(self) -> None:
        self._heard: dict[WritingLane, int] = {}
        self._before: Mapping[WritingLane, int] = {}

    def begin(self, written: Mapping[WritingLane, int]) -> None:
        """Begin with these counts. The caller treats everything as changed, whatever was heard before."""
        self._heard = dict(written)
        self._before = {}

    def ring(self, place: WritingLane, since: int, until: int) -> bool:
        """A ring has brought the events of the commits above `since`, up to `until`.

        Returns False when events below are missing. A ring that comes late, or repeats a part, is no gap.
        """
        heard = self._heard.get(place, 0)
        self._heard[place] = max(heard, until)
        return since <= heard

    def look(self, written: Mapping[WritingLane, int]) -> bool:
        """Compare with the counts of the table.

        Returns False when the ring of a commit is missing that the look before this one saw already: rings
        have that long to arrive. The caller treats everything as changed then.
        """
        behind = [place for place, count in self._before.items() if self._heard.get(place, 0) < count]
        for place in behind:
            self._heard[place] = max(self._heard.get(place, 0), written.get(place, 0), self._before[place])
        for place in self._before.keys() - written.keys():
            self._heard.pop(place, None)
        self._before = written
        return not behind
