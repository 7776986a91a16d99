"""Thousands of inputs, executed in two fresh processes: everything must be equal, byte by byte."""

import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openflow
import pytest
from hosting import Hosted

from holdfast_ryu import wire

INPUTS = 10_000 if os.environ.get("HOLDFAST_MATRIX") == "all" else 2_000
SWITCHES = 8
PORTS = 4

BODIES = [
    bytes.fromhex("0800450000540000400040010000c0a80001c0a800020800f7ff0001") + bytes(58),
    bytes.fromhex("08004500001c0000400040110000c0a80001c0a80002003500350008ffff") + bytes(18),
    bytes.fromhex("080045000028000040004006000ac0a80001c0a8000204d20050000000010000000050020200000000000000"),
    bytes.fromhex(
        "86dd6000000000083a40fe800000000000000000000000000001fe8000000000000000000000000000028000000000000000"
    ),
    bytes.fromhex("81000064080600010800060400010000000000010a0000010000000000000a000002"),
    b"\x88\xb5" + bytes(46),
]


def traffic(seed: int, requests: list[tuple[str, str, bytes]]) -> Iterator[wire.Event]:
    """Switches that come and go, packets, port changes, time, requests."""
    chance = random.Random(seed)
    for number in range(1, SWITCHES + 1):
        yield wire.Up(number, openflow.features(number), openflow.ports(number, PORTS))
    for _ in range(INPUTS - SWITCHES):
        switch, port = chance.randint(1, SWITCHES), chance.randint(1, PORTS)
        source, target = openflow.host(chance.randint(1, 300)), openflow.host(chance.randint(1, 300))
        match chance.randrange(1_000):
            case 0:
                yield wire.Down(switch)
            case 1 | 2:
                yield wire.Up(switch, openflow.features(switch), openflow.ports(switch, PORTS))
            case 3 | 4:
                yield wire.Message(switch, openflow.port_status(switch, port, chance.randrange(3)))
            case 5 | 6 | 7:
                yield wire.Message(switch, chance.randbytes(chance.randint(0, 80)))
            case number if number < 30 and requests:
                yield wire.Request(number, *chance.choice(requests)[:2], [], chance.choice(requests)[2])
            case number if number < 130:
                yield wire.Tick()
            case number if number < 400:
                yield wire.Message(
                    switch, openflow.packet_in(port, openflow.arp(source, chance.choice([target, openflow.BROADCAST])))
                )
            case _:
                frame = openflow.address(target) + openflow.address(source) + chance.choice(BODIES)
                yield wire.Message(switch, openflow.packet_in(port, frame, buffer_id=chance.choice([0xFFFFFFFF, 5])))


def execute(
    apps: list[str], ryu: Path, requests: list[tuple[str, str, bytes]], batch: int, slow: bool = False
) -> list[wire.Result]:
    with Hosted(*apps, path=[ryu], slow=slow, options=["--observe-links"]) as host:
        events = list(traffic(1, requests))
        assert len(events) == INPUTS
        results = []
        for start in range(0, INPUTS, batch):
            results += host.batch(events[start : start + batch], step_ns=20_000_000)
        return results


TABLE = "/simpleswitch/mactable/0000000000000001"
REST = [
    ("GET", TABLE, b""),
    ("PUT", TABLE, b'{"mac": "00:00:00:00:09:09", "port": 2}'),
    ("GET", "/stats/flow/1", b""),
    ("GET", "/v1.0/topology/links", b""),
]


@pytest.mark.parametrize(
    ("apps", "requests"),
    [
        (["ryu.app.simple_switch_rest_13", "ryu.app.ofctl_rest", "ryu.app.rest_topology"], REST),
        (["ryu.app.simple_switch_stp_13", "ryu.app.simple_monitor_13"], []),
        (["ryu.app.simple_switch_lacp_13"], []),
    ],
    ids=["rest", "spanning tree", "aggregation"],
)
def test_fresh_processes_agree(ryu: Path, apps: list[str], requests: list[tuple[str, str, bytes]]) -> None:
    with ThreadPoolExecutor() as pool:
        one, other = pool.map(lambda batch: execute(apps, ryu, requests, batch), (500, 77))
    assert sum(len(result.commands) for result in one) > INPUTS / 2
    if requests:
        assert any(answer.status == 200 for result in one for answer in result.answers)
    for left, right in zip(one, other, strict=True):
        assert left == right, f"input {left.number}"


def test_fast_paths_change_nothing(ryu: Path) -> None:
    apps = ["ryu.app.simple_switch_rest_13", "ryu.app.rest_topology"]
    with ThreadPoolExecutor() as pool:
        fast, framework = pool.map(lambda slow: execute(apps, ryu, REST, 500, slow), (False, True))
    for left, right in zip(fast, framework, strict=True):
        assert left == right, f"input {left.number}"
