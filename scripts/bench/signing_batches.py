"""Signatures a second, by the CPU time of each: a hundred in one request, and one."""

from statistics import median

from plan import Plan
from processes import started_server
from report import Figures, Result, Target, spread
from request_cost import Side
from signing_flood import BATCH, SIGN, SIGN_MANY, WALLET, rpc_load

_TIMES_AS_MANY = 3


def measure_batches(plan: Plan) -> list[Result]:
    """Alternate single requests and batches on one server."""
    with plan.folder() as folder, plan.folder() as single, plan.folder() as many:
        with started_server(folder, WALLET) as server:
            sides = [
                Side(server, rpc_load(place, body), plan, settles=True)
                for place, body in ((single, SIGN), (many, SIGN_MANY))
            ]
            for side in sides:
                side.warm_up()
            rounds = [(sides[0].measure(), sides[1].measure()) for _ in range(plan.rounds)]
    figures: Figures = {
        "single_us": median(single.cpu_us for single, _ in rounds),
        "batched_us": median(batch.cpu_us / BATCH for _, batch in rounds),
        "single_rate": median(single.rate for single, _ in rounds),
        "batched_rate": median(batch.rate * BATCH for _, batch in rounds),
        **spread([batch.rate * BATCH / single.rate for single, batch in rounds]),
    }
    return [Result(f"batches of {BATCH}", figures, Target("ratio", _TIMES_AS_MANY, at_least=True))]
