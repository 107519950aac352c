"""Write all vectors into the folder that is named on the command line. Runs in eth-account's environment."""

import json
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from message_vectors import message_vectors
from transaction_vectors import transaction_vectors
from typed_data_vectors import typed_data_vectors


def write(path: Path, vectors: Iterable[dict[str, Any]]) -> None:
    """Write one vector a line, so that a change shows which."""
    origin = json.dumps(f"eth-account {version('eth-account')}, run by scripts/make_vectors.py")
    lines = ",\n".join(json.dumps(vector, separators=(",", ":")) for vector in vectors)
    path.write_text(f'{{"origin": {origin}, "vectors": [\n{lines}\n]}}\n', "utf-8")


def main() -> None:
    """A random generator with a fixed seed per file, so that a change of one file does not change others."""
    folder = Path(sys.argv[1])
    write(folder / "messages.json", message_vectors())
    write(folder / "transactions.json", transaction_vectors())
    write(folder / "typed_data.json", typed_data_vectors())


if __name__ == "__main__":
    main()
