"""A method of the wallet described: the parts of its OpenRPC object."""

from dataclasses import dataclass, field
from typing import Any

from bridge_server.wallet.rpc.described_shapes import Schema


@dataclass(frozen=True, slots=True)
class MethodParameter:
    """A parameter of a method, by its place."""

    name: str
    schema: Schema
    summary: str = ""
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMethod:
    """A method. `params` and `result` of the example are the values; `varies` says that the result differs
    from call to call, or from wallet to wallet.
    """

    name: str
    tag: str
    summary: str
    parameters: tuple[MethodParameter, ...] = ()
    result_name: str
    result: Schema
    errors: tuple[int, ...] = ()
    example: list[Any] = field(default_factory=list)
    example_result: Any
    varies: bool = False
