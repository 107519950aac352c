"""Signatures a second: of requests for a hundred, and of requests for one.

The ratio is that of their CPU time, which is the ratio of their rates on a core of one's own.
"""

from contextlib import ExitStack
from statistics import median

from plan import Plan
from processes import started_server
from report import Figures, Result, Target, spread
from request_cost import Side
from rpc_load import BATCH, SIGN_MESSAGE, SIGN_MESSAGES, WALLET, rpc_load

_TIMES_AS_MANY = 3


def measure_batches(plan: Plan) -> list[Result]:
    """Alternate single requests and batches on one server."""
    with ExitStack() as stack:
        folder, *places = (stack.enter_context(plan.folder()) for _ in range(3))
        server = stack.enter_context(started_server(folder, WALLET))
        bodies = SIGN_MESSAGE, SIGN_MESSAGES
        loads = [rpc_load(place, body) for place, body in zip(places, bodies, strict=True)]
        sides = [Side(server, load, plan, settles=True) for load in loads]
        for side in sides:
            side.warm_up()
        rounds = [(sides[0].measure(), sides[1].measure()) for _ in range(plan.rounds)]
    figures: Figures = {
        "single_us": median(single.cpu_us for single, _ in rounds),
        "batched_us": median(batch.cpu_us / BATCH for _, batch in rounds),
        "single_rate": median(single.rate for single, _ in rounds),
        "batched_rate": median(batch.rate * BATCH for _, batch in rounds),
        **spread([single.cpu_us / (batch.cpu_us / BATCH) for single, batch in rounds]),
    }
    return [Result(f"batches of {BATCH}", figures, Target("ratio", _TIMES_AS_MANY, at_least=True))]
