"""The folder of the console's scripts and stylesheet."""

from pathlib import Path

STATIC_FOLDER = Path(__file__).parent / "static"
STYLESHEET = STATIC_FOLDER / "console.css"
"""The stylesheet, which other pages of the server use, too."""
