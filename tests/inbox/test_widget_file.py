"""The web component's modules, joined into one file, and its addresses in Node against the server's own."""

import re
import subprocess
from pathlib import Path

import orjson

from bridge_server.ethereum.address import checksummed
from bridge_server.inbox.page import widget_script
from tests.support.node_packages import needs_node_alone

_MODULES = Path(__file__).parents[2] / "bridge_server" / "inbox" / "widget"
_FACTOR = 0x9E3779B97F4A7C15F39CC0605CEDC8341082276B
_ADDRESSES = [f"0x{number * _FACTOR % 2**160:040x}" for number in range(200)]
_SPELL = """
import { checksummed } from './address.mjs'
console.log(JSON.stringify(JSON.parse(process.argv[2]).map(checksummed)))
"""


def _node(*arguments: str, folder: Path) -> str:
    done = subprocess.run(
        ["node", *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_is_in_the_file_once_and_after_the_modules_that_it_imports() -> None:
    script = widget_script().decode()

    firsts = {path.stem: path.read_text("utf-8").split("\n", 1)[0] for path in _MODULES.glob("*.js")}
    assert {name: script.count(f"{first}\n") for name, first in firsts.items()} == dict.fromkeys(firsts, 1)
    for name, first in firsts.items():
        imports = re.findall(r"from './(\w+)\.js'", (_MODULES / f"{name}.js").read_text("utf-8"))
        assert all(script.index(firsts[imported]) < script.index(first) for imported in imports)


@needs_node_alone
def test_the_modules_have_no_name_in_common(tmp_path: Path) -> None:
    (tmp_path / "widget.mjs").write_bytes(widget_script())

    _node("--check", "widget.mjs", folder=tmp_path)


@needs_node_alone
def test_addresses_have_the_servers_spelling(tmp_path: Path) -> None:
    (tmp_path / "address.mjs").write_text((_MODULES / "address.js").read_text("utf-8"), "utf-8")
    (tmp_path / "spell.mjs").write_text(_SPELL, "utf-8")

    spelled = orjson.loads(_node("spell.mjs", orjson.dumps(_ADDRESSES).decode(), folder=tmp_path))

    assert spelled == [checksummed(address) for address in _ADDRESSES]
