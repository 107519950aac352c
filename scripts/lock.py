"""Writes constraints.txt: the newest version of every package that this project and its extras need.

The file has names and versions only, so that it is valid for every index and platform.
"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

_ROOT = Path(__file__).resolve().parent.parent
_OWN_NAME = "bridge-server"
_HEADER = """\
# What `scripts/environment` installs: the versions that the tests have passed with.
# `scripts/lock` writes this file; run `scripts/test --all` before you keep it.
"""


def resolved(extras: str) -> list[str]:
    """`name==version` of each package, in order, as pip would install them into an empty environment."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        subprocess.run(
            [
                sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run",
                "--ignore-installed", "--report", str(report), "--editable", f"{_ROOT}[{extras}]",
            ],
            check=True,
        )  # fmt: skip
        installed = json.loads(report.read_text("utf-8"))["install"]
    packages = [package["metadata"] for package in installed]
    lines = [f"{each['name'].lower()}=={each['version']}" for each in packages if each["name"] != _OWN_NAME]
    return sorted(lines)


def main() -> None:
    """Write the file."""
    lines = resolved(sys.argv[1])
    (_ROOT / "constraints.txt").write_text(_HEADER + "\n".join(lines) + "\n", "utf-8")
    print(f"constraints.txt has {len(lines)} packages: run scripts/test --all, and keep it if that passes")


if __name__ == "__main__":
    main()
