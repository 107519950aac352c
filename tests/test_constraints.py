"""The locked versions: everything that setup.cfg asks for by name and version, and not where it was found."""

import re
from configparser import ConfigParser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.rows import each_row

_ROOT = Path(__file__).parent.parent
_LINE = re.compile(r"[a-z0-9][a-z0-9._-]*==[0-9][a-z0-9.]*")


def locked() -> dict[str, str]:
    lines = (_ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def requirements() -> list[Requirement]:
    setup = ConfigParser()
    setup.read(_ROOT / "setup.cfg", "utf-8")
    texts = [setup["options"]["install_requires"], *setup["options.extras_require"].values()]
    return [Requirement(line) for text in texts for line in text.split("\n") if line]


def test_a_line_has_a_name_and_a_version() -> None:
    lines = (_ROOT / "constraints.txt").read_text("utf-8").splitlines()

    assert [line for line in lines if not line.startswith("#") and not _LINE.fullmatch(line)] == []


@each_row("requirement", requirements(), ids=str)
def test_every_requirement_is_locked_in_a_version_that_serves(requirement: Requirement) -> None:
    assert requirement.specifier.contains(locked()[canonicalize_name(requirement.name)])


@each_row("version", ["3.21.0", "3.24.1", "4.0.0"])
def test_the_library_that_others_pin_may_be_as_old_as_theirs(version: str) -> None:
    (requirement,) = [each for each in requirements() if each.name == "pycryptodome"]

    assert requirement.specifier.contains(version)
