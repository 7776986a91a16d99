"""What an application says about its connection: echoes and roles."""

import json
from pathlib import Path

import openflow
from hosting import SECOND, Hosted
from network import Network

from holdfast_ryu import control, wire
from holdfast_ryu.versions import common

APPS = Path(__file__).parent / "apps"


def test_delay_is_measured() -> None:
    """An application's echo becomes a barrier: the answer comes from the switch, and has its data."""
    with Hosted(str(APPS / "echoing.py")) as host:
        host.one(wire.Up(1, openflow.features(1), openflow.ports(1)))
        (command,) = host.one(wire.Message(1, openflow.packet_in(1, b"x" * 64))).commands
        assert openflow.kind(command.message) == openflow.BARRIER_REQUEST
        host.now_ns += 2 * SECOND
        reply = openflow.message(openflow.BARRIER_REPLY, xid=openflow.xid(command.message))
        result = host.one(wire.Message(1, reply))
        assert not result.failures, result.failures[0].trace
        (line,) = result.lines
        assert line.text.startswith("echo after 2.00")
        assert not host.one(wire.Message(1, reply)).lines, "and this one is a barrier's"


def test_role_by_rest(ryu: Path) -> None:
    with Hosted("ryu.app.ofctl_rest", path=[ryu]) as host:
        network = Network(host, 1, 3)
        answer = network.request("GET", "/stats/role/1")
        assert answer.status == 200 and json.loads(answer.body)["1"][0]["role"] == "MASTER"
        assert network.request("POST", "/stats/role", b'{"dpid": 1, "role": "MASTER"}').status == 200
        assert not network.kinds(1), "roles are Holdfast's"
        slave = json.dumps({"dpid": 1, "role": "SLAVE"}).encode()
        network.request("POST", "/stats/role", slave)
        assert network.kinds(1) == [control.ROLE_REQUEST], "which the log refuses"


def test_bound_of_echoes() -> None:
    waiting = control.Control()
    for xid in range(control.ECHOES + 1):
        sent, _ = waiting.command(common.make(4, control.ECHO_REQUEST, xid.to_bytes(4, "big"), b"data"))
        assert sent is not None and sent[1] == common.BARRIER_REQUEST
    oldest, newest = (common.make(4, common.BARRIER_REPLY, xid.to_bytes(4, "big"), b"") for xid in (0, control.ECHOES))
    assert waiting.event(oldest) == oldest
    assert waiting.event(newest) == common.make(4, control.ECHO_REPLY, newest[4:8], b"data")
