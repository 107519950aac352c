"""swagger-ui-dist, with which a reader tries operations in the browser.

It is on npm alone, and not part of this program: `scripts/build` puts it, with its licence, beside this
module, and so does `scripts/serve` in a checkout where npm is there.
"""

from pathlib import Path

FOLDER = Path(__file__).parent / "swagger"
_NAMES = ("swagger-ui.css", "swagger-ui-bundle.js")


def swagger_ui_files(folder: Path) -> list[Path]:
    """The stylesheet and the script; none if one is missing."""
    files = [folder / name for name in _NAMES]
    return files if all(file.is_file() for file in files) else []
