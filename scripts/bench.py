"""Measure the server against a bare aiohttp handler: `python scripts/bench.py --help`.

The modules are in the folder of the same name, which Python can run as a program.
"""

import runpy
from pathlib import Path

if __name__ == "__main__":
    runpy.run_path(str(Path(__file__).with_suffix("")), run_name="__main__")
