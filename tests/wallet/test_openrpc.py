"""The OpenRPC document describes what the wallet answers: every method, and each example by calling it."""

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from bridge_server.assembly.foundation import lay_foundation
from bridge_server.assembly.wallet import assembled_wallet
from bridge_server.cli.commands import commands
from bridge_server.settings.settings import Settings
from bridge_server.wallet.rpc.openrpc import MEANING_OF_CODE, METHODS, openrpc_document
from bridge_server.wallet.rpc.wire import CODE_OF_KIND
from tests.support.asking import ask
from tests.support.programs import free_ports
from tests.support.rpc_client import RpcClient
from tests.support.server import RunningServer

_DOCUMENT: dict[str, Any] = orjson.loads(orjson.dumps(openrpc_document()))


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """A wallet whose node cannot be reached, so that it queues what it is to send."""
    node_url = f"http://127.0.0.1:{free_ports(1)[0]}"
    return {"dev_accounts": True, "light_kdf": True, "chain_id": 31_337, "node_url": node_url}


def faults(value: Any, schema: dict[str, Any]) -> list[str]:
    """The faults of the value by a JSON Schema of the document."""
    judge = Draft202012Validator({**schema, "components": _DOCUMENT["components"]})
    return [error.message for error in judge.iter_errors(value)]


def test_the_document_describes_the_methods_that_are_served_and_no_others(tmp_path: Path) -> None:
    wallet = assembled_wallet(lay_foundation(Settings(data_dir=tmp_path)), role=None)
    served = [name for table in wallet.method_tables for name in table.by_name]
    assert sorted(method["name"] for method in _DOCUMENT["methods"]) == sorted(served)
    assert set(CODE_OF_KIND.values()) <= set(MEANING_OF_CODE), "every code has a meaning"


async def test_each_example_fits_its_schemas_and_is_answered_as_it_is_shown(server: RunningServer) -> None:
    rpc = RpcClient(server)
    for row, described in zip(METHODS, _DOCUMENT["methods"], strict=True):
        required = [each for each in row.parameters if each.required]
        assert len(required) <= len(row.example) <= len(row.parameters), row.name
        assert row.parameters == (*required, *row.parameters[len(required) :]), row.name
        for value, parameter in zip(row.example, described["params"], strict=False):
            assert faults(value, parameter["schema"]) == [], row.name

        result = await rpc.call(row.name, *row.example)
        for each in (result, row.example_result):
            assert faults(each, described["result"]["schema"]) == [], row.name
        assert row.varies or result == row.example_result, row.name


async def test_a_parameter_more_or_less_is_refused(server: RunningServer) -> None:
    rpc = RpcClient(server)
    for row in METHODS:
        required = [each for each in row.parameters if each.required]
        values = (row.example + [None] * len(row.parameters))[: len(row.parameters)]
        assert (await rpc.error(row.name, *values, None)).code == -32602, row.name
        if required:
            error = await rpc.error(row.name, *row.example[: len(required) - 1])
            assert error.code == -32602, row.name


async def test_the_document_is_answered_by_both_ways_and_by_the_command(server: RunningServer) -> None:
    page = await ask(server, "GET", "/openrpc.json", headers={"Origin": "https://tools.example"})
    discovered = await RpcClient(server).call("rpc.discover")
    printed = CliRunner().invoke(commands, ["openrpc"])
    assert page.status == 200
    assert page.headers["Content-Type"] == "application/json"
    assert page.headers["Access-Control-Allow-Origin"] == "*"
    assert page.json == discovered == orjson.loads(printed.output) == _DOCUMENT


def test_the_document_is_openrpc_and_its_references_lead_to_schemas() -> None:
    """The meta schema of OpenRPC 1.3, as far as the document has its parts."""
    references = set(re.findall(r'"\$ref":"([^"]*)"', orjson.dumps(_DOCUMENT).decode()))
    assert references == {f"#/components/schemas/{name}" for name in _DOCUMENT["components"]["schemas"]}
    assert _DOCUMENT.keys() == {"openrpc", "info", "servers", "methods", "components", "externalDocs"}
    assert re.fullmatch(r"1\.3\.\d+", _DOCUMENT["openrpc"])
    assert _DOCUMENT["info"].keys() == {"title", "version", "description", "license"}
    names = [method["name"] for method in _DOCUMENT["methods"]]
    assert len(names) == len(set(names))
    for method in _DOCUMENT["methods"]:
        assert method.keys() == {
            "name", "tags", "summary", "paramStructure", "params", "result", "errors", "examples",
        }  # fmt: skip
        assert method["paramStructure"] in ("by-name", "by-position", "either")
        for descriptor in (*method["params"], method["result"]):
            assert {"name", "schema"} <= descriptor.keys() <= {"name", "schema", "required", "summary"}
        codes = [error["code"] for error in method["errors"]]
        assert len(codes) == len(set(codes))
        assert all(error.keys() == {"code", "message"} and error["message"] for error in method["errors"])
        for example in method["examples"]:
            assert example.keys() == {"name", "params", "result"}
            assert all(each.keys() == {"name", "value"} for each in (*example["params"], example["result"]))
