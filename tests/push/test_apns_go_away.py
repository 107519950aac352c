from itertools import pairwise

import pytest
from h2.connection import H2Connection
from h2.exceptions import ProtocolError
from hyperframe.frame import DataFrame, GoAwayFrame, PingFrame, SettingsFrame
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.push.providers.http2 import GoAway, GoAwayFilter


def go_away(last_stream_id: int, code: int = 0, text: bytes = b"") -> bytes:
    return GoAwayFrame(0, last_stream_id=last_stream_id, error_code=code, additional_data=text).serialize()


FRAMES = st.one_of(
    st.builds(lambda data: DataFrame(1, data=data).serialize(), st.binary(max_size=40)),
    st.just(PingFrame(0, opaque_data=b"12345678").serialize()),
    st.builds(go_away, st.integers(0, 2**31 - 1), st.integers(0, 13), st.binary(max_size=20)),
)


@given(st.lists(FRAMES, max_size=8), st.lists(st.integers(0, 400), max_size=6))
def test_goaways_are_taken_out_however_the_bytes_arrive(frames: list[bytes], cuts: list[int]) -> None:
    data = b"".join(frames)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    filtered = GoAwayFilter()

    parts = [part for a, b in pairwise(places) for part in filtered.feed(data[a:b])]

    others = b"".join(frame for frame in frames if frame[3] != GoAwayFrame.type)
    assert b"".join(part for part in parts if isinstance(part, bytes)) == others
    assert [part for part in parts if isinstance(part, GoAway)] == [
        GoAway(int.from_bytes(frame[9:13]), int.from_bytes(frame[13:17]))
        for frame in frames
        if frame[3] == GoAwayFrame.type
    ]


def test_order_is_kept() -> None:
    ping = PingFrame(0, opaque_data=b"12345678").serialize()

    assert GoAwayFilter().feed(ping + go_away(5, 2) + ping) == [ping, GoAway(5, 2), ping]


def test_the_reserved_bit_is_no_part_of_the_stream() -> None:
    frame = bytearray(go_away(7))
    frame[9] |= 0x80

    assert GoAwayFilter().feed(bytes(frame)) == [GoAway(7, 0)]


def test_truncated_goaway_frame_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="too short"):
        GoAwayFilter().feed(b"\x00\x00\x04\x07\x00\x00\x00\x00\x00\x00\x00\x00\x01")


def test_a_frame_that_is_too_large_is_passed_on_at_once_and_not_kept() -> None:
    start = b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + b"x" * 100

    assert GoAwayFilter().feed(start) == [start]


def test_h2_alone_still_refuses_what_comes_after_a_goaway() -> None:
    """Why there is a filter; when this fails, h2 has learnt it, and the filter can go."""
    connection = H2Connection()
    connection.initiate_connection()
    connection.receive_data(SettingsFrame(0).serialize() + go_away(1))

    with pytest.raises(ProtocolError):
        connection.receive_data(PingFrame(0, opaque_data=b"12345678").serialize())
