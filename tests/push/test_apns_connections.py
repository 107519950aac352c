"""The one connection to APNs: shared by all pushes, replaced when it ends, and no push is lost with it.

White-box: no test makes the two thousand million requests that use a connection up.
"""

import asyncio
from dataclasses import replace

import h2.errors
import pytest

from bridge_server.outbox.guarded_client import Outcome, Verdict
from tests.push.providers import DELIVERED, NOTICE, OTHER_TOKEN, Apns, opened_apns
from tests.support.apns_service import ApnsService, ServerStream, abort, hold, refusal, reset, taken
from tests.support.clock import PassTime
from tests.support.waiting import eventually, turns
from tests.support.webhook_receiver import open_receiver


async def begun(apns: Apns, count: int) -> list[asyncio.Task[Outcome]]:
    """So many pushes under way, which the service holds back, in the order of their streams."""
    apns.service.otherwise = hold
    pushes = [asyncio.create_task(apns.push(f"{number:064x}")) for number in range(count)]
    await apns.held(count)
    apns.service.otherwise = taken
    return pushes


async def test_many_pushes_are_under_way_at_once(apns: Apns) -> None:
    await apns.push()
    pushes = await begun(apns, 200)
    for stream in reversed(apns.service.held):
        taken(apns.service, stream)
    assert await asyncio.gather(*pushes) == [DELIVERED] * 200


async def test_no_more_streams_are_opened_than_the_service_allows() -> None:
    async with opened_apns(max_streams=7) as apns:
        assert await apns.push_many(100) == [DELIVERED] * 100
        assert apns.service.most_at_once <= 7
        assert len(apns.service.connections) == 1


@pytest.mark.parametrize("when", ["while it waits", "at its turn"])
async def test_a_push_that_is_given_up_passes_its_turn_on(when: str) -> None:
    async with opened_apns(max_streams=1) as apns:
        await apns.push()
        (first,) = await begun(apns, 1)
        impatient, patient = (asyncio.create_task(apns.push()) for _ in range(2))
        await turns()

        if when == "at its turn":
            first.add_done_callback(lambda _: impatient.cancel())
        else:
            impatient.cancel()
            await asyncio.sleep(0)
        taken(apns.service, apns.service.held[0])

        assert await asyncio.gather(*[first, patient]) == [DELIVERED, DELIVERED]


async def test_a_hang_times_out_and_harms_no_other(apns: Apns, pass_time: PassTime) -> None:
    await apns.push()
    apns.service.by_token[OTHER_TOKEN] = hold
    stuck = asyncio.create_task(apns.push(OTHER_TOKEN))
    await apns.held(1)

    others = await apns.push_many(50)
    await pass_time(30)

    assert others == [DELIVERED] * 50
    assert await stuck == Outcome(Verdict.FAILED, "no answer in time")
    await eventually(lambda: apns.service.held[0].was_reset)
    assert await apns.push() == DELIVERED
    assert len(apns.service.connections) == 1


async def test_a_connection_that_has_said_nothing_is_not_used_again(apns: Apns, pass_time: PassTime) -> None:
    for _ in range(2):  # the second answer comes after all that the connection begins with
        await apns.push()
    apns.service.script.append(hold)

    unanswered = asyncio.create_task(apns.push())
    await apns.held(1)
    await pass_time(30)

    assert (await unanswered).verdict is Verdict.FAILED
    assert await apns.push() == DELIVERED
    assert len(apns.service.connections) == 2


async def test_a_stream_that_is_reset_fails_and_one_that_was_refused_is_tried_again(apns: Apns) -> None:
    def refuse(_: ApnsService, stream: ServerStream) -> None:
        stream.reset(h2.errors.ErrorCodes.REFUSED_STREAM)

    apns.service.script.append(reset)
    assert await apns.push() == Outcome(Verdict.FAILED, "the server reset the request")
    apns.service.script.append(refuse)
    assert await apns.push() == DELIVERED
    assert len(apns.service.connections) == 1
    apns.service.script.extend([refuse] * 3)
    assert (await apns.push()).verdict is Verdict.FAILED


@pytest.mark.parametrize("end", ["closed", "gone away", "broken off", "used up"])
async def test_an_ended_connection_is_replaced(apns: Apns, end: str) -> None:
    await apns.push()
    (connection,) = apns.service.connections
    if end == "used up":  # no public door reaches two thousand million requests
        assert apns.provider._client is not None
        assert apns.provider._client._current is not None
        apns.provider._client._current._h2.highest_outbound_stream_id = 2**31 - 1
    elif end == "broken off":
        connection.abort()
    else:
        if end == "closed":
            connection.close()
        else:
            connection.go_away(1)
        await connection.closed

    assert await apns.push_many(50) == [DELIVERED] * 50
    assert len(apns.service.connections) == 2


@pytest.mark.parametrize("end", ["it breaks", "noise"])
async def test_a_connection_that_breaks_under_many_loses_none_of_them(apns: Apns, end: str) -> None:
    await apns.push()
    pushes = await begun(apns, 20)

    if end == "noise":
        apns.service.connections[0].write(b"\x00\x00\x01\x00\x00\x00\x00\x00\x00\xff")  # DATA on stream 0
    else:
        apns.service.connections[0].abort()

    assert await asyncio.gather(*pushes) == [DELIVERED] * 20
    assert len(apns.service.connections) == 2


async def test_a_service_that_breaks_off_every_time_is_a_failure_in_the_end(apns: Apns) -> None:
    apns.service.otherwise = abort
    assert await apns.push() == Outcome(Verdict.FAILED, "the connection was closed before an answer")
    assert len(apns.service.connections) == 3


async def go_away_under_way(apns: Apns, answered: int, held: int) -> list[asyncio.Task[Outcome]]:
    """Pushes under way, and a GOAWAY that promises an answer to the first `answered` of them."""
    pushes = await begun(apns, held)
    last = apns.service.held[answered - 1].stream_id if answered else 0
    apns.service.connections[0].go_away(last, text=b'{"reason":"Shutdown"}')
    return pushes


@pytest.mark.parametrize("answered", [0, 1, 3, 5])
async def test_a_goaway_has_its_pushes_answered_and_others_sent_again(apns: Apns, answered: int) -> None:
    await apns.push()
    pushes = await go_away_under_way(apns, answered, held=5)

    assert await asyncio.gather(*pushes[answered:]) == [DELIVERED] * (5 - answered)
    for stream in apns.service.held[:answered]:
        refusal("Unregistered")(apns.service, stream)
    late = await asyncio.gather(*pushes[:answered])
    assert [outcome.verdict for outcome in late] == [Verdict.GONE] * answered
    await apns.service.connections[0].closed
    assert await apns.push() == DELIVERED
    assert len(apns.service.connections) == 2


async def test_pushes_that_wait_for_their_turn_move_to_the_fresh_connection() -> None:
    async with opened_apns(max_streams=1) as apns:
        await apns.push()
        (first,) = await go_away_under_way(apns, 0, held=1)
        waiting = [asyncio.create_task(apns.push()) for _ in range(5)]
        assert await asyncio.gather(first, *waiting) == [DELIVERED] * 6


async def test_a_huge_answer_is_cut_and_its_stream_reset(apns: Apns) -> None:
    streams: list[ServerStream] = []

    def huge(service: ApnsService, stream: ServerStream) -> None:
        streams.append(stream)
        connection = stream.connection.state
        connection.send_headers(stream.stream_id, [(":status", "500")])
        for _ in range(4):
            connection.send_data(stream.stream_id, b"x" * 16_383)
        stream.connection.flush()

    async def has_room_for_more() -> bool:
        return any(
            each.connection.state.local_flow_control_window(each.stream_id) > 3_000 for each in streams
        )

    apns.service.script.append(huge)
    push = asyncio.create_task(apns.push())
    await eventually(has_room_for_more)
    stream = streams[0]
    stream.connection.state.send_data(stream.stream_id, b"x" * 3_000)
    stream.connection.flush()

    assert await push == Outcome(Verdict.FAILED, "APNs answered 500", 500)
    assert await apns.push() == DELIVERED


async def test_bodies_wait_for_the_windows_of_the_service(apns: Apns) -> None:
    await apns.push()
    large = replace(NOTICE, data={"text": "x" * 3_800})
    pushes = [apns.push(f"{number:064x}", large) for number in range(200)]
    assert await asyncio.gather(*pushes) == [DELIVERED] * 200


async def test_a_connection_is_not_trusted_after_ten_silent_minutes(apns: Apns, pass_time: PassTime) -> None:
    for seconds, connections in ((0, 1), (590, 1), (600, 2)):
        await pass_time(seconds)
        assert await apns.push() == DELIVERED
        assert len(apns.service.connections) == connections


async def test_an_untrusted_certificate_a_closed_port_and_a_server_without_tls_are_failures() -> None:
    async with opened_apns(trusted=False) as apns:
        told = "the certificate is not valid: self-signed certificate"
        assert await apns.push() == Outcome(Verdict.FAILED, told)
        assert apns.service.received == []
    async with open_receiver() as receiver:
        endpoint = f"https://127.0.0.1:{receiver.port}"
        async with opened_apns(endpoint=endpoint) as apns:
            without_tls = await apns.push()
    async with opened_apns(endpoint=endpoint) as apns:
        closed = await apns.push()

    assert (without_tls.verdict, closed.verdict) == (Verdict.FAILED, Verdict.FAILED)
    assert without_tls.reason.startswith(("no TLS connection: ", "no connection: "))
    assert closed.reason.startswith("no connection: ")


async def test_a_server_that_accepts_and_says_nothing_is_given_up_in_time_by_all(pass_time: PassTime) -> None:
    writers: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    async with silent, opened_apns(endpoint=f"https://127.0.0.1:{port}") as apns:
        pushing = asyncio.create_task(apns.push_many(10))
        await eventually(lambda: bool(writers))
        await pass_time(30)

        assert {outcome.verdict for outcome in await pushing} == {Verdict.FAILED}
        assert len(writers) == 1
        writers[0].close()
        await writers[0].wait_closed()


async def test_closing_ends_what_is_under_way(apns: Apns) -> None:
    (push,) = await begun(apns, 1)
    await apns.provider.__aexit__(None, None, None)
    assert await push == Outcome(Verdict.FAILED, "the client was closed")
    assert len(apns.service.connections) == 1


async def test_a_push_may_be_given_up_while_the_provider_closes(apns: Apns) -> None:
    (push,) = await begun(apns, 1)
    closing = asyncio.create_task(apns.provider.__aexit__(None, None, None))
    await asyncio.sleep(0)

    push.cancel()

    await closing
    with pytest.raises(asyncio.CancelledError):
        await push
