"""A virtual environment with schemathesis, which sends a running server what its description allows.

Run as a program it prints the interpreter of the environment `.schemathesis`.
"""

import sys

from separate_environment import EnvironmentMissingError, environment_python


def main() -> int:
    """Print the interpreter; 1 and the reason if there can be none."""
    try:
        print(environment_python(".schemathesis", ("schemathesis==4.32.*",)))
    except EnvironmentMissingError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
