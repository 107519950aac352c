"""Ids: version, variant and every other bit as RFC 9562 has them."""

from uuid import RFC_4122, UUID

from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.secrets import IdMaker

moments = st.integers(0, 2**48 - 1)
random_bits = st.binary(min_size=16, max_size=16)


def maker(source: bytes) -> IdMaker:
    """Takes its randomness from the front of these bytes."""
    return IdMaker(lambda count: source[:count])


@given(random_bits)
def test_a_random_id_is_a_version_4_uuid_that_keeps_the_other_122_bits(source: bytes) -> None:
    spelled = maker(source).random_uuid()
    uuid = UUID(spelled)

    assert str(uuid) == spelled
    assert uuid.version == 4
    assert uuid.variant == RFC_4122
    free_bits = ~((0xF << 76) | (0x3 << 62))
    assert uuid.int & free_bits == int.from_bytes(source, "big") & free_bits


@given(moments, random_bits)
def test_an_ordered_id_is_a_version_7_uuid_with_the_time_in_front(now_ms: int, source: bytes) -> None:
    spelled = maker(source).ordered_uuid(now_ms)
    uuid = UUID(spelled)

    assert str(uuid) == spelled
    assert (uuid.int >> 76) & 0xF == 7
    assert uuid.variant == RFC_4122
    assert uuid.int >> 80 == now_ms
    free_bits = ~((0xF << 76) | (0x3 << 62)) & (2**80 - 1)
    assert uuid.int & free_bits == int.from_bytes(source[:10], "big") & free_bits


@given(moments, moments, random_bits, random_bits)
def test_ordered_ids_sort_by_their_time(one_ms: int, other_ms: int, one: bytes, other: bytes) -> None:
    first, second = maker(one).ordered_uuid(one_ms), maker(other).ordered_uuid(other_ms)

    if one_ms != other_ms:
        assert (first < second) is (one_ms < other_ms)


def test_ids_do_not_repeat() -> None:
    ids = IdMaker()

    made = {ids.random_uuid() for _ in range(5_000)} | {ids.ordered_uuid(1) for _ in range(5_000)}

    assert len(made) == 10_000
