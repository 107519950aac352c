"""The statements that the package has written down: constants of modules that hold SQL."""

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import bridge_server

STATEMENT = re.compile(r"\s*(?:SELECT|INSERT\s+INTO|UPDATE|DELETE\s+FROM|WITH)\s", re.ASCII)

_PASSED_OVER = {"sql_postgres", "postgres_overrides", "__main__"}


def modules() -> Iterator[str]:
    """The modules of the package but for the driver of PostgreSQL."""
    for module in pkgutil.walk_packages(bridge_server.__path__, "bridge_server."):
        leaf = module.name.rpartition(".")[2]
        if leaf not in _PASSED_OVER and not module.name.startswith("bridge_server.storage.postgres"):
            yield module.name


def _statements() -> Iterator[tuple[str, str]]:
    for module in modules():
        for constant, value in vars(importlib.import_module(module)).items():
            for number, sql in enumerate(value if isinstance(value, tuple) else (value,)):
                if isinstance(sql, str) and STATEMENT.match(sql):
                    yield f"{module}.{constant}" + (f"[{number}]" if isinstance(value, tuple) else ""), sql


STATEMENTS: Mapping[str, str] = MappingProxyType(dict(_statements()))
"""By their names, such as `bridge_server.relay.store.INSERT_CALL`. An imported statement has two names."""


def parameter_count(sql: str) -> int:
    """How many parameters the statement has, as a room writes it."""
    numbers = [int(number) for number in re.findall(r"\?(\d+)", sql)]
    return max(numbers, default=sql.count("?"))
