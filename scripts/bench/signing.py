"""CPU time of hashing and signing, this project's beside eth-account's, in turns.

Both must make the same bytes, or nothing is compared.
"""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from load import in_turns
from machine import on_core
from oracle_environment import OracleMissingError, oracle_python
from plan import Plan
from processes import MeasurementError
from report import Figures, Row, row
from signing_tasks import KEY, tasks

from bridge_server.ethereum.address import data_of, hex_of
from bridge_server.ethereum.signing_key import SigningKey, personal_message_hash
from bridge_server.ethereum.transactions import sign_transaction
from bridge_server.ethereum.typed_data import read_typed_data
from bridge_server.wallet.transactions.requests import read_transaction

TASKS = ("sign-message", "sign-mail", "sign-20-structs", "sign-eip-1559")
_ACCOUNT = SigningKey(KEY)
_WARM_UPS = 50
_ROUND_SECONDS = 0.5


def measure_signing(task: str, plan: Plan) -> Iterator[Row]:
    """Alternate both; the ratio is how many of ours cost what one of eth-account's does."""
    own = tasks(_sign_message, _sign_typed_data, _sign_transaction)[task]
    with _started_oracle(task) as oracle, on_core(0):
        if _answer_of(oracle) != own():
            raise MeasurementError("eth-account makes other bytes of it")

        def own_us(count: int) -> float:
            started = time.thread_time_ns()
            for _ in range(count):
                own()
            return (time.thread_time_ns() - started) / 1e3 / count

        def oracle_us(count: int) -> float:
            assert oracle.stdin is not None
            oracle.stdin.write(f"{count}\n")
            oracle.stdin.flush()
            return float(_answer_of(oracle))

        figures = in_turns(plan.rounds, eth_account=_sized(oracle_us), own=_sized(own_us))
    yield row(task, figures)


def _sized(cost_us: Callable[[int], float]) -> Callable[[], Figures]:
    """A round of as many as take half a second."""
    count = round(_ROUND_SECONDS * 1e6 / cost_us(_WARM_UPS))
    return lambda: {"us": cost_us(count)}


@contextmanager
def _started_oracle(task: str) -> Iterator["subprocess.Popen[str]"]:
    try:
        interpreter = oracle_python()
    except OracleMissingError as error:
        raise MeasurementError(str(error)) from None
    script = Path(__file__).with_name("oracle_signing.py")
    command = [str(interpreter), str(script), task]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _answer_of(oracle: "subprocess.Popen[str]") -> str:
    assert oracle.stdout is not None
    if not (line := oracle.stdout.readline()):
        raise MeasurementError("eth-account's process ended")
    return line.rstrip("\n")


def _sign_message(data: str) -> str:
    return hex_of(_ACCOUNT.sign(personal_message_hash(data_of(data))))


def _sign_typed_data(document: Any) -> str:
    return hex_of(_ACCOUNT.sign(read_typed_data(document).digest))


def _sign_transaction(transaction: Any) -> str:
    request = read_transaction(transaction)
    assert request.nonce is not None
    raw, *_ = sign_transaction(request.transaction(request.nonce), _ACCOUNT)
    return hex_of(raw)
