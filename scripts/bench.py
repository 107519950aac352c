"""Measure the server against a bare aiohttp handler: `python scripts/bench.py --help`.

The modules are in the folder of the same name, which Python can run as a program.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1]))  # a row starts servers as tests do
    runpy.run_path(str(Path(__file__).with_suffix("")), run_name="__main__")
