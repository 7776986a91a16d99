"""An application sends the same on a host and on os-ken itself."""

import random
from pathlib import Path

import openflow
import pytest
from hosting import Hosted
from plain import Plain
from test_replay import BODIES

from holdfast_ryu import wire

PORTS = 4
EVENTS = 500


def messages() -> list[bytes]:
    chance = random.Random(3)
    made = []
    for _ in range(EVENTS):
        port, target = chance.randint(1, PORTS), chance.choice(
            [openflow.BROADCAST, openflow.host(chance.randint(1, 30))]
        )
        frame = (
            openflow.address(target) + openflow.address(openflow.host(chance.randint(1, 30))) + chance.choice(BODIES)
        )
        made.append(openflow.packet_in(port, frame))
        if chance.random() < 0.1:
            made.append(openflow.port_status(1, port, chance.randrange(3)))
    return made


def without_xid(message: bytes) -> bytes:
    return message[:4] + message[8:]


@pytest.mark.parametrize("app", ["simple_switch_13", "simple_switch_lacp_13"])
def test_same_commands_as_on_os_ken(ryu: Path, app: str) -> None:
    inputs = messages()
    with Hosted(f"ryu.app.{app}", path=[ryu]) as host:
        first = host.one(wire.Up(1, openflow.features(1), openflow.ports(1, PORTS)))
        results = [first, *host.batch(wire.Message(1, message) for message in inputs)]
    hosted = [without_xid(command.message) for result in results for command in result.commands]
    with Plain(f"ryu.app.{app}", ryu, PORTS) as plain:
        received = [without_xid(plain.receive()) for _ in first.commands]
        for message in inputs:
            plain.send(message)
        while len(received) < len(hosted):
            received.append(without_xid(plain.receive()))
    assert received == hosted
