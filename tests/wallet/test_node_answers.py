"""Whatever JSON a node answers with is passed on as it was written."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridge_server.wallet.models import NodeError, NoNodeError, RpcCall
from bridge_server.wallet.node.connections import read_answers, write_calls

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
LAYOUTS = st.sampled_from([{}, {"separators": (",", ":")}, {"indent": 1}, {"ensure_ascii": False}])


def written(value: Any, layout: dict[str, Any]) -> bytes:
    return json.dumps(value, **layout).encode(errors="replace")


@given(JSON, LAYOUTS)
def test_a_result_is_its_own_text(result: Any, layout: dict[str, Any]) -> None:
    (answer,) = read_answers(written({"jsonrpc": "2.0", "id": 1, "result": result}, layout), 1)

    assert isinstance(answer, bytes)
    assert json.loads(answer) == json.loads(written(result, layout))


@given(st.lists(JSON, min_size=2, max_size=5), LAYOUTS, st.randoms())
def test_the_results_of_a_batch_are_found_by_their_ids(
    results: list[Any], layout: dict[str, Any], random: Any
) -> None:
    answers = [{"jsonrpc": "2.0", "id": number, "result": each} for number, each in enumerate(results, 1)]
    random.shuffle(answers)

    read = read_answers(written(answers, layout), len(results))

    assert [json.loads(each) for each in read if isinstance(each, bytes)] == json.loads(
        written(results, layout)
    )


@given(st.binary() | st.text().map(str.encode) | JSON.map(lambda value: json.dumps(value).encode()))
def test_anything_else_is_no_answer(body: bytes) -> None:
    for count in (1, 2):
        try:
            answers = read_answers(body, count)
        except NoNodeError:
            continue
        assert len(answers) == count
        assert all(isinstance(each, bytes | NodeError) for each in answers)


@given(st.lists(st.tuples(st.text(), JSON), min_size=1, max_size=4))
def test_calls_are_written_as_they_are(calls: list[tuple[str, Any]]) -> None:
    document = json.loads(write_calls([RpcCall(method, params) for method, params in calls]))

    requests = document if len(calls) > 1 else [document]
    assert [request["id"] for request in requests] == list(range(1, len(calls) + 1))
    assert [(request["method"], request.get("params")) for request in requests] == calls
