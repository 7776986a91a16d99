"""Applications for other versions of OpenFlow than 1.3: what they say and see, next to the same on 1.3."""

import json
import struct
from pathlib import Path
from typing import Any

import openflow
import pytest
from hosting import Hosted
from network import Network, outputs

from holdfast_ryu import versions, wire
from holdfast_ryu.versions import v12

SWITCHES = {1: "simple_switch"} | {version: f"simple_switch_1{version - 1}" for version in (3, 4, 5, 6)}
FLOW = {
    "priority": 77,
    "cookie": 5,
    "idle_timeout": 9,
    "match": {"in_port": 1, "dl_type": 2048, "nw_proto": 6, "nw_dst": "10.1.0.0/16", "tp_dst": 80, "dl_vlan": 7},
    "actions": [{"type": "SET_NW_DST", "nw_dst": "10.2.0.1"}, {"type": "SET_VLAN_VID", "vlan_vid": 8},
                {"type": "OUTPUT", "port": 2}],
}
MODERN = FLOW | {
    "match": {"in_port": 1, "eth_type": 2048, "ip_proto": 6, "ipv4_dst": "10.1.0.0/16", "tcp_dst": 80, "vlan_vid": 7},
    "actions": [{"type": "SET_FIELD", "field": "ipv4_dst", "value": "10.2.0.1"},
                {"type": "SET_FIELD", "field": "vlan_vid", "value": 8 | 0x1000}, {"type": "OUTPUT", "port": 2}],
}


class Remembering(Network):
    """Switches that tell which flow entries they were given, a marker among them."""

    def _replies(self, switch: int, message: bytes) -> list[wire.Event]:
        if openflow.kind(message) == 5:  # FEATURES_REQUEST, which tells the ports before 1.3
            reply = openflow.features(switch)
            return [wire.Message(switch, reply[:4] + message[4:8] + reply[8:])]
        if openflow.kind(message) != openflow.MULTIPART_REQUEST or message[8:10] not in (b"\0\1", b"\0\4"):
            return super()._replies(switch, message)
        if message[8:10] == b"\0\4":
            body = struct.pack(">I4x12QII", 3, *range(1, 13), 14, 15)
        else:
            source = b"\x02HFM\0\1"
            body = entry(254, 0, 0, 0x48 << 56 | 9, struct.pack(">HHHBB6s", 1, 14, 0x8000, 8, 6, source) + b"\0\0")
            for number, flow_mod in self.messages:
                if number == switch and openflow.kind(flow_mod) == openflow.FLOW_MOD and flow_mod[25] == 0:
                    cookie, idle, priority = struct.unpack_from(">Q10xH2xH", flow_mod, 8)
                    body += entry(flow_mod[24], idle, priority, cookie, flow_mod[48:])
        head = message[8:10] + bytes(6)
        return [wire.Message(switch, openflow.message(openflow.MULTIPART_REPLY, head + body, openflow.xid(message)))]


def entry(table: int, idle: int, priority: int, cookie: int, rest: bytes) -> bytes:
    return struct.pack(">HBxIIHHHH4xQQQ", 48 + len(rest), table, 1, 2, priority, idle, 0, 1, cookie, 3, 4) + rest


def asked(network: Network, path: str) -> Any:
    answer = network.request("GET", path)
    assert answer.status == 200, answer
    return json.loads(answer.body)


@pytest.mark.parametrize("version", SWITCHES)
def test_application(ryu: Path, version: int) -> None:
    """A learning switch of the version, and the REST interface, which takes any."""
    apps = [f"ryu.app.{SWITCHES[version]}", "ryu.app.ofctl_rest"]
    with Hosted(*apps, path=[ryu]) as host:
        network = Remembering(host, 1, 3)
        for port, source, target in ((1, 1, None), (2, 2, 1)):
            frame = openflow.arp(openflow.host(source), openflow.host(target) if target else openflow.BROADCAST)
            network.frame(1, port, frame)
        sent = [message for _, message in network.messages]
        assert all(message[0] == 4 for message in sent)
        flood, direct = (outputs(message) for message in sent if openflow.kind(message) == openflow.PACKET_OUT)
        assert flood == (1, [openflow.FLOOD], openflow.arp(openflow.host(1)))
        assert direct == (2, [1], openflow.arp(openflow.host(2), openflow.host(1)))
        flow_mods = [message for message in sent if openflow.kind(message) == openflow.FLOW_MOD]
        assert len(flow_mods) == 2, "what misses, and what was learned"
        assert struct.pack(">HHIH6x", 0, 16, openflow.CONTROLLER, 0xFFFF) in flow_mods[0]
        check_statistics(network, version)
        check_events(network, version)


def check_statistics(network: Network, version: int) -> None:
    flow = FLOW if version < 3 else MODERN
    answer = network.request("POST", "/stats/flowentry/add", json.dumps({"dpid": 1} | flow).encode())
    assert answer.status == 200
    added = network.messages[-1][1]
    fields = dict((number, value) for number, _, value in versions.v12.common.fields(added[52 : 48 + added[51]]))
    assert fields == {
        0: b"\0\0\0\1", 5: b"\x08\0", 6: b"\x10\7", 10: b"\6", 12: bytes([10, 1, 0, 0, 255, 255, 0, 0]), 14: b"\0P"
    }
    if version == 6:  # it asks for counters without what the entries do, which 1.3 has not
        assert network.request("GET", "/stats/flow/1").status == 400 and "has no equal in 1.3" in network.lines()
        return
    flows = {flow["priority"]: flow for flow in asked(network, "/stats/flow/1")["1"]}
    # Before 1.3 a switch has no entry for what misses. That of the application for 1.2 has learned with priority 0.
    assert set(flows) == {1: {77, 32768}, 3: {77, 0}}.get(version, {77, 1, 0}), "without the marker"
    assert version != 3 or flows[0]["match"]["dl_dst"] == openflow.host(1)
    seen = flows[77]
    assert (seen["cookie"], seen["idle_timeout"], seen["match"]["in_port"]) == (5, 9, 1)
    assert (seen["packet_count"], seen["byte_count"]) == (3, 4)
    (ports,) = asked(network, "/stats/port/1")["1"]
    counters = [ports[name] for name in ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes")]
    assert (ports["port_no"], counters) == (3, [1, 2, 3, 4])
    names = {port["name"] for port in asked(network, "/stats/portdesc/1")["1"]}
    assert names == {"s1-eth1", "s1-eth2", "s1-eth3", "s1"}


def check_events(network: Network, version: int) -> None:
    reason, table, match = 1, 0, struct.pack(">HHHBBI4x", 1, 12, 0x8000, 0, 4, 2)
    removed = struct.pack(">QHBBIIHHQQ", 5, 77, reason, table, 1, 2, 9, 0, 3, 4) + match
    network.run(wire.Message(1, openflow.message(11, removed)))
    network.run(wire.Message(1, openflow.port_status(1, 9, 0)))
    network.run(wire.Message(1, openflow.message(openflow.ERROR, struct.pack(">HH", 5, 1) + bytes(64))))
    assert not [line for line in network.lines().splitlines() if "rror" in line and "EventOFPErrorMsg" not in line]


def test_deletion_keeps_what_misses() -> None:
    """Before 1.3, a switch sends what misses to the controller, whatever is deleted."""
    wildcards = struct.pack(">I36x", (1 << 22) - 1)
    order = struct.pack(">QHHHHIHH", 0, 3, 0, 0, 0, 0xFFFFFFFF, 0xFFFF, 0)
    delete = struct.pack(">BBHI", 1, 14, 72, 9) + wildcards + order
    translated = versions.commands(1, delete)
    assert [message[25] for message in translated] == [3, 0] and translated[1] == v12.table_miss()
    assert versions.first_commands(1) == [v12.table_miss()] and versions.first_commands(4) == []


def test_what_has_no_equal() -> None:
    bundle = struct.pack(">BBHIIHH", 5, 33, 16, 1, 1, 0, 0)
    with pytest.raises(versions.Untranslatable, match=r"type 33 of OpenFlow 1.4 .* use 1.3"):
        versions.commands(5, bundle)
    with pytest.raises(ValueError, match="16 bits"):
        versions.events(1, openflow.packet_in(70_000, b"frame"), [])


def test_what_is_chosen() -> None:
    assert [versions.choose(some) for some in ({1, 4, 5}, {1, 5, 6}, {1, 3}, {1})] == [4, 5, 3, 1]
