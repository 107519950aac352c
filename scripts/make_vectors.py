"""Make test vectors with an independent implementation: `python scripts/make_vectors.py`.

They are made by eth-account in an environment of its own, down to the curve, which is in Python there, and
written to `tests/vectors`, one vector a line. The same release makes the same files.

Each file is an object: `origin` says what made it, `vectors` is a list. All bytes are `0x` and hexadecimal.

    messages.json      {key, message, digest, signature}
    transactions.json  {name, key, transaction, raw, hash}, the transaction as JSON-RPC spells it, with its
                       `type`; `to` is null where a contract is created
    typed_data.json    {name, key, typed_data, digest, signature}, the typed data as eth_signTypedData_v4
                       takes it

`key` is the private key, `digest` the 32 bytes that were signed, `signature` r, s and v (27 or 28).

What is left out, because eth-account deviates there from EIP-712 or from what wallets do: types that the
primary type does not use, types that need one another in a circle, a domain type in another order than the
standard's, members that are null or absent, more members in a domain than in its type, `bytes` spelled as
text or as a number, booleans spelled as text, fixed arrays of another length. Integers of JSON are used up to
2^53, from where browsers lose digits; greater ones are strings.
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
