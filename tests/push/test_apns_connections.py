import asyncio
from dataclasses import replace

import h2.errors
import pytest

from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.push.providers import http2
from tests.push.apns import NOTICE, OTHER_TOKEN, TOKEN, Apns, opened_apns
from tests.support.apns_service import (
    ApnsService,
    ServerStream,
    abort,
    hold,
    refusal,
    reset,
    taken,
)
from tests.support.eventually import eventually, turns
from tests.support.loop_time import PassTime
from tests.support.rows import each_row
from tests.support.webhook_receiver import open_receiver

DELIVERED = Outcome(Verdict.DELIVERED, status=200)


async def test_many_pushes_share_one_connection() -> None:
    async with opened_apns() as apns:
        outcomes = await apns.push_many(500)

        assert outcomes == [DELIVERED] * 500
        assert len({received.device_token for received in apns.service.received}) == 500
        assert len(apns.service.connections) == 1


async def test_many_pushes_are_under_way_at_once() -> None:
    async with opened_apns() as apns:
        await apns.push()
        apns.service.otherwise = hold
        pushes = [asyncio.create_task(apns.push(f"{number:064x}")) for number in range(200)]
        await apns.held(200)

        for stream in reversed(apns.service.held):
            taken(apns.service, stream)

        assert await asyncio.gather(*pushes) == [DELIVERED] * 200


async def test_no_more_streams_are_opened_than_the_service_allows() -> None:
    async with opened_apns(max_streams=7) as apns:
        outcomes = await apns.push_many(100)

        assert outcomes == [DELIVERED] * 100
        assert apns.service.most_at_once <= 7
        assert len(apns.service.connections) == 1


async def test_a_push_that_waits_for_its_turn_may_be_given_up() -> None:
    async with opened_apns(max_streams=1) as apns:
        await apns.push()
        apns.service.script.append(hold)
        first = asyncio.create_task(apns.push())
        await apns.held(1)
        impatient, patient = (asyncio.create_task(apns.push()) for _ in range(2))
        await turns()

        impatient.cancel()
        await asyncio.sleep(0)
        taken(apns.service, apns.service.held[0])

        assert await asyncio.gather(*[first, patient]) == [DELIVERED, DELIVERED]


async def test_request_cancelled_at_its_turn_passes_the_turn_on() -> None:
    async with opened_apns(max_streams=1) as apns:
        await apns.push()
        apns.service.script.append(hold)
        first = asyncio.create_task(apns.push())
        await apns.held(1)
        impatient, patient = (asyncio.create_task(apns.push()) for _ in range(2))
        await turns()

        first.add_done_callback(lambda _: impatient.cancel())
        taken(apns.service, apns.service.held[0])

        assert await asyncio.gather(*[first, patient]) == [DELIVERED, DELIVERED]


async def test_a_hang_times_out_and_harms_no_other(pass_time: PassTime) -> None:
    async with opened_apns(timeout_seconds=30) as apns:
        await apns.push()
        apns.service.by_token[OTHER_TOKEN] = hold
        stuck = asyncio.create_task(apns.push(OTHER_TOKEN))
        await apns.held(1)

        others = await apns.push_many(50)
        await pass_time(30)

        assert others == [DELIVERED] * 50
        assert await stuck == Outcome(Verdict.FAILED, "no answer in time")
        assert await apns.push() == DELIVERED
        assert len(apns.service.connections) == 1


async def test_a_push_that_is_given_up_frees_its_stream_at_the_service(pass_time: PassTime) -> None:
    streams: list[ServerStream] = []

    def never(_: ApnsService, stream: ServerStream) -> None:
        streams.append(stream)

    async def is_there() -> bool:
        return bool(streams)

    async def was_reset() -> bool:
        return streams[0].was_reset

    async with opened_apns(timeout_seconds=30) as apns:
        apns.service.script.append(never)

        given_up = asyncio.create_task(apns.push())
        await eventually(is_there)
        await pass_time(30)
        await given_up

        await eventually(was_reset)


async def test_a_connection_that_has_said_nothing_at_all_is_not_used_again(pass_time: PassTime) -> None:
    async with opened_apns(timeout_seconds=30) as apns:
        for _ in range(2):  # the second answer comes after all that the connection begins with
            await apns.push()
        apns.service.script.append(hold)

        unanswered = asyncio.create_task(apns.push())
        await apns.held(1)
        await pass_time(30)

        assert (await unanswered).verdict is Verdict.FAILED
        assert await apns.push() == DELIVERED
        assert len(apns.service.connections) == 2


async def test_a_stream_that_is_reset_is_a_failure_of_its_own() -> None:
    async with opened_apns() as apns:
        apns.service.script.append(reset)

        assert await apns.push() == Outcome(Verdict.FAILED, "the server reset the request")
        assert await apns.push() == DELIVERED
        assert len(apns.service.connections) == 1


async def test_a_stream_that_was_refused_unread_is_tried_again_at_once() -> None:
    def refuse(_: ApnsService, stream: ServerStream) -> None:
        stream.reset(h2.errors.ErrorCodes.REFUSED_STREAM)

    async with opened_apns() as apns:
        apns.service.script.append(refuse)
        assert await apns.push() == DELIVERED

        apns.service.script.extend([refuse] * 3)
        assert (await apns.push()).verdict is Verdict.FAILED


async def test_a_connection_that_the_service_closed_while_idle_is_replaced() -> None:
    async with opened_apns() as apns:
        await apns.push()
        apns.service.connections[0].close()
        await apns.service.connections[0].closed

        assert await apns.push() == DELIVERED
        assert len(apns.service.connections) == 2


async def test_a_push_that_meets_the_closing_is_tried_again_on_a_fresh_connection() -> None:
    async with opened_apns() as apns:
        await apns.push()
        apns.service.connections[0].abort()

        assert await apns.push_many(50) == [DELIVERED] * 50
        assert len(apns.service.connections) == 2


async def test_a_connection_that_breaks_under_many_loses_none_of_them() -> None:
    async with opened_apns() as apns:
        await apns.push()
        apns.service.otherwise = hold
        pushes = [asyncio.create_task(apns.push(f"{number:064x}")) for number in range(20)]
        await apns.held(20)
        apns.service.otherwise = taken

        apns.service.connections[0].abort()

        assert await asyncio.gather(*pushes) == [DELIVERED] * 20
        assert len(apns.service.connections) == 2


async def test_a_service_that_breaks_off_every_time_is_a_failure_in_the_end() -> None:
    async with opened_apns() as apns:
        apns.service.otherwise = abort

        assert await apns.push() == Outcome(Verdict.FAILED, "the connection was closed before an answer")
        assert len(apns.service.connections) == 3


async def go_away_under_way(apns: Apns, answered: int, held: int) -> list[asyncio.Task[Outcome]]:
    """Pushes under way, and a GOAWAY that promises an answer to the first `answered` of them."""
    apns.service.otherwise = hold
    pushes = []
    for number in range(held):
        pushes.append(asyncio.create_task(apns.push(f"{number:064x}")))
        await apns.held(number + 1)
    apns.service.otherwise = taken
    last = apns.service.held[answered - 1].stream_id if answered else 0
    apns.service.connections[0].go_away(last, text=b'{"reason":"Shutdown"}')
    return pushes


@each_row("answered", [0, 1, 3, 5])
async def test_after_a_goaway_what_was_taken_is_answered_and_the_rest_goes_elsewhere(answered: int) -> None:
    async with opened_apns() as apns:
        await apns.push()
        pushes = await go_away_under_way(apns, answered, held=5)
        elsewhere = await asyncio.gather(*pushes[answered:])

        for stream in apns.service.held[:answered]:
            refusal("Unregistered")(apns.service, stream)
        late = await asyncio.gather(*pushes[:answered])

        assert elsewhere == [DELIVERED] * (5 - answered)
        assert [outcome.verdict for outcome in late] == [Verdict.GONE] * answered
        await apns.service.connections[0].closed
        assert await apns.push() == DELIVERED
        assert len(apns.service.connections) == 2


async def test_after_a_goaway_new_pushes_use_a_fresh_connection() -> None:
    async with opened_apns() as apns:
        await apns.push()
        (old,) = await go_away_under_way(apns, 1, held=1)

        async def is_fresh() -> bool:
            assert await apns.push() == DELIVERED  # the old one may be used until the GOAWAY has come
            return len(apns.service.connections) == 2

        await eventually(is_fresh)
        taken(apns.service, apns.service.held[0])
        assert await old == DELIVERED


async def test_a_goaway_while_idle_is_followed_by_a_fresh_connection() -> None:
    async with opened_apns() as apns:
        await apns.push()
        apns.service.connections[0].go_away(1)
        await apns.service.connections[0].closed

        assert await apns.push() == DELIVERED


async def test_pushes_that_wait_for_their_turn_move_to_the_fresh_connection() -> None:
    async with opened_apns(max_streams=1) as apns:
        await apns.push()
        (first,) = await go_away_under_way(apns, 0, held=1)
        waiting = [asyncio.create_task(apns.push()) for _ in range(5)]

        assert await asyncio.gather(first, *waiting) == [DELIVERED] * 6


async def test_noise_on_the_connection_loses_nothing() -> None:
    async with opened_apns() as apns:
        await apns.push()
        apns.service.otherwise = hold
        push = asyncio.create_task(apns.push())
        await apns.held(1)
        apns.service.otherwise = taken

        apns.service.connections[0].write(b"\x00\x00\x01\x00\x00\x00\x00\x00\x00\xff")  # DATA on stream 0

        assert await push == DELIVERED


async def test_a_huge_answer_is_cut_and_its_stream_reset() -> None:
    streams: list[ServerStream] = []

    def huge(service: ApnsService, stream: ServerStream) -> None:
        streams.append(stream)
        connection = stream.connection._h2
        connection.send_headers(stream.stream_id, [(":status", "500")])
        for _ in range(4):
            connection.send_data(stream.stream_id, b"x" * 16_383)
        stream.connection._flush()

    async def has_room_for_more() -> bool:
        return any(each.connection._h2.local_flow_control_window(each.stream_id) > 3_000 for each in streams)

    async with opened_apns() as apns:
        apns.service.script.append(huge)
        push = asyncio.create_task(apns.push())
        await eventually(has_room_for_more)
        stream = streams[0]
        stream.connection._h2.send_data(stream.stream_id, b"x" * 3_000)
        stream.connection._flush()

        assert await push == Outcome(Verdict.FAILED, "APNs answered 500", 500)
        assert await apns.push() == DELIVERED


async def test_bodies_wait_for_the_windows_of_the_service() -> None:
    async with opened_apns() as apns:
        await apns.push()

        large = replace(NOTICE, data={"text": "x" * 3_800})
        pushes = [apns.push(f"{number:064x}", large) for number in range(200)]

        assert await asyncio.gather(*pushes) == [DELIVERED] * 200


async def test_a_connection_is_not_trusted_after_ten_silent_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened_apns() as apns:
        await apns.push()
        await apns.push()
        assert len(apns.service.connections) == 1
        monkeypatch.setattr(http2, "_IDLE_SECONDS", 0.0)

        assert await apns.push() == DELIVERED
        assert len(apns.service.connections) == 2


async def test_untrusted_certificate_is_a_failure() -> None:
    async with opened_apns(trusted=False) as apns:
        assert await apns.push() == Outcome(
            Verdict.FAILED, "the certificate is not valid: self-signed certificate"
        )
        assert apns.service.received == []


async def test_a_closed_port_is_a_failure() -> None:
    async with opened_apns() as apns:
        async with open_receiver() as receiver:
            port = receiver.port
        assert apns.provider._client is not None
        apns.provider._client._port = port

        outcome = await apns.push()

        assert outcome.verdict is Verdict.FAILED
        assert outcome.reason.startswith("no connection: ")


async def test_a_server_without_tls_is_a_failure() -> None:
    async with opened_apns() as apns, open_receiver() as receiver:
        assert apns.provider._client is not None
        apns.provider._client._port = receiver.port

        outcome = await apns.push()

        assert outcome.verdict is Verdict.FAILED
        assert outcome.reason.startswith(("no TLS connection: ", "no connection: "))


async def test_a_server_that_accepts_and_says_nothing_is_given_up_in_time_by_all(pass_time: PassTime) -> None:
    async with opened_apns(timeout_seconds=30) as apns:
        writers: list[asyncio.StreamWriter] = []
        silent = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
        async with silent:
            assert apns.provider._client is not None
            apns.provider._client._port = silent.sockets[0].getsockname()[1]

            async def is_connected() -> bool:
                return bool(writers)

            pushing = asyncio.create_task(apns.push_many(10))
            await eventually(is_connected)
            await pass_time(30)

            assert {outcome.verdict for outcome in await pushing} == {Verdict.FAILED}
            assert len(writers) == 1
            writers[0].close()
            await writers[0].wait_closed()


async def test_a_connection_that_has_used_up_its_stream_numbers_is_replaced() -> None:
    async with opened_apns() as apns:
        await apns.push()
        assert apns.provider._client is not None
        assert apns.provider._client._current is not None
        apns.provider._client._current._h2.highest_outbound_stream_id = 2**31 - 1

        assert await apns.push() == DELIVERED
        assert len(apns.service.connections) == 2


async def test_closing_ends_what_is_under_way() -> None:
    async with opened_apns() as apns:
        apns.service.otherwise = hold
        push = asyncio.create_task(apns.push(TOKEN))
        await apns.held(1)

        await apns.provider.__aexit__(None, None, None)

        assert await push == Outcome(Verdict.FAILED, "the client was closed")
        assert len(apns.service.connections) == 1


async def test_a_push_may_be_given_up_while_the_provider_closes() -> None:
    async with opened_apns() as apns:
        apns.service.otherwise = hold
        push = asyncio.create_task(apns.push())
        await apns.held(1)
        closing = asyncio.create_task(apns.provider.__aexit__(None, None, None))
        await asyncio.sleep(0)

        push.cancel()

        await closing
        with pytest.raises(asyncio.CancelledError):
            await push
