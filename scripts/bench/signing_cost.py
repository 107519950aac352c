"""CPU time of hashing and signing, this project's beside eth-account's, in turns.

Both must make the same bytes, or nothing is compared.
"""

from statistics import median

from oracle_environment import OracleMissingError, oracle_python
from plan import Plan
from processes import MeasurementError
from report import Figures, Result, Target, spread
from worker import Worker, started_worker

# How often eth-account's time a task should fit into this project's.
TIMES_AS_FAST = {
    "sign-message": 5,
    "sign-mail": 5,
    "sign-20-structs": 5,
    "sign-legacy": 7,
    "sign-eip-1559": 7,
}

_WARM_UPS = 50
_ROUND_SECONDS = 0.5


def measure_signing(task: str, plan: Plan) -> list[Result]:
    """Alternate both; the ratio is how many of ours cost what one of eth-account's does."""
    try:
        oracle = str(oracle_python())
    except OracleMissingError as error:
        raise MeasurementError(str(error)) from None
    with (
        started_worker("signing.py", task) as own,
        started_worker("oracle_signing.py", task, interpreter=oracle) as other,
    ):
        if own.read_line() != other.read_line():
            raise MeasurementError("eth-account makes other bytes of it")
        counts = [_count(worker) for worker in (own, other)]
        rounds = [
            (own.cpu_us_each(counts[0], 0), other.cpu_us_each(counts[1], 0)) for _ in range(plan.rounds)
        ]
    figures: Figures = {
        "eth_account_us": median(theirs for _, theirs in rounds),
        "own_us": median(ours for ours, _ in rounds),
        **spread([theirs / ours for ours, theirs in rounds]),
    }
    return [Result(task, figures, Target("ratio", TIMES_AS_FAST[task], at_least=True))]


def _count(worker: Worker) -> int:
    """How many make a round; this warms up, too."""
    return round(_ROUND_SECONDS * 1e6 / worker.cpu_us_each(_WARM_UPS, 0))
