"""Make test vectors with an independent implementation: `python scripts/make_vectors.py`.

eth-account makes them in a separate environment, with a pure Python implementation of the curve. They are
written to `tests/vectors`, one vector a line. The output is deterministic for a release of eth-account.

Each file is an object: `origin` names the program and its version, `vectors` is a list. All bytes are in
hexadecimal with `0x`.

    messages.json      {key, message, digest, signature}
    transactions.json  {name, key, transaction, raw, hash}, the transaction as JSON-RPC spells it, with its
                       `type`; `to` is null where a contract is created
    typed_data.json    {name, key, typed_data, digest, signature}, the typed data as eth_signTypedData_v4
                       takes it

`key` is the private key, `digest` the 32 bytes that were signed, `signature` r, s and v (27 or 28).

Cases in which eth-account differs from EIP-712 or from wallets are left out: types that the
primary type does not use, recursive types, a domain type in another order than the
standard's, members that are null or absent, more members in a domain than in its type, `bytes` spelled as
text or as a number, booleans spelled as text, fixed arrays of another length. Integers above
2^53, where browsers lose digits, are strings.
"""

import os
import subprocess
from pathlib import Path

from oracle_environment import PURE_PYTHON, oracle_python

SCRIPTS = Path(__file__).parent
VECTORS = SCRIPTS.parent / "tests" / "vectors"


def main() -> None:
    """Make the vectors in eth-account's environment."""
    command = [oracle_python(), SCRIPTS / "vectors" / "write_vectors.py", VECTORS]
    subprocess.run(command, env=os.environ | PURE_PYTHON, check=True)


if __name__ == "__main__":
    main()
