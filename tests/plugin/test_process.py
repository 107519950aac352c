"""The fixture `bridge_process`: a crash, a stop, a start, at one URL over one database."""

import os

import pytest

from bridge_server.kit.fixtures import BridgeProcess


@pytest.mark.usefixtures("forked_processes")
@pytest.mark.bridge(session_ttl=500, rpc_origins=("http://localhost:3000", "https://a.example"))
def test_an_answered_write_survives_a_crash(bridge_process: BridgeProcess) -> None:
    url, pid = bridge_process.url, bridge_process.pid
    dapp = bridge_process.dapp("Example")

    bridge_process.kill()
    assert not bridge_process.is_running
    bridge_process.restart()

    assert (bridge_process.url, bridge_process.is_running) == (url, True)
    assert pid not in (bridge_process.pid, os.getpid())
    assert dapp.request("personal_sign", ["0x68", "0x0"])
    assert [each.path for each in bridge_process.traffic() if each.who != "test"] != []


def test_a_process_stops_in_good_order(bridge_process: BridgeProcess) -> None:
    bridge_process.clock.advance(hours=1)

    assert bridge_process.stop() == 0
    assert "server_stopped" in bridge_process.log()
