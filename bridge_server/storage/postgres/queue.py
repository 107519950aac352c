"""The transactions that wait for a lane, in the order in which they were asked for."""

from bridge_server.storage.database import NO_TURNS, Turn
from bridge_server.storage.postgres.rounds import LaneJob

BATCH_LIMIT = 128
_SAME_TURN_LIMIT = 16
"""A batch has as many rounds as it has transactions with one turn: more would keep all others waiting."""
_EXAMINED_LIMIT = 1_024


class Waiting:
    """A queue from which batches are taken."""

    def __init__(self) -> None:
        self.jobs: list[LaneJob] = []

    def take(self) -> list[LaneJob]:
        """The next batch. Transactions that stay keep their place before others with one of their turns."""
        batch: list[LaneJob] = []
        left: list[LaneJob] = []
        counts: dict[Turn, int] = {}
        barred: set[Turn] = set()
        examined = 0
        for job in self.jobs[:_EXAMINED_LIMIT]:
            if len(batch) == BATCH_LIMIT:
                break
            examined += 1
            if job.turns is NO_TURNS:
                batch.append(job)
                continue
            exclusive, shared = job.turns
            is_barred = any(turn in barred for turn in (*exclusive, *shared))
            if is_barred or any(counts.get(turn, 0) >= _SAME_TURN_LIMIT for turn in exclusive):
                barred.update(exclusive, shared)
                left.append(job)
                continue
            for turn in exclusive:
                counts[turn] = counts.get(turn, 0) + 1
            batch.append(job)
        self.jobs[:examined] = left
        return batch

    def take_all(self) -> list[LaneJob]:
        """Remove and return all transactions that wait."""
        jobs, self.jobs = self.jobs, []
        return jobs
