"""The applications of Ryu 4.34 and what comes with os-ken, unmodified."""

import json
import re
import struct
from pathlib import Path
from typing import Any

import openflow
import pytest
from hosting import Hosted
from network import Network, outputs

from holdfast_ryu import wire

APPS = Path(__file__).parent / "apps"
TRIANGLE = [((1, 1), (2, 2)), ((2, 1), (3, 2)), ((3, 1), (1, 2))]
DPID = "0000000000000001"


@pytest.fixture(params=[False, True], ids=["fast", "slow"])
def slow(request: pytest.FixtureRequest) -> Any:
    return request.param


def learn(network: Network) -> None:
    """Two hosts at ports 1 and 2 of switch 1 find each other."""
    network.frame(1, 1, openflow.arp(openflow.host(1)))
    network.frame(1, 2, openflow.arp(openflow.host(2), openflow.host(1), operation=2))


def test_learning_switch(ryu: Path, slow: bool) -> None:
    with Hosted("ryu.app.simple_switch_13", path=[ryu], slow=slow) as host:
        network = Network(host, 1, 3)
        learn(network)
        assert network.kinds(1) == [openflow.FLOW_MOD, openflow.PACKET_OUT, openflow.FLOW_MOD, openflow.PACKET_OUT]
        flood, direct = (
            outputs(message) for _, message in network.messages if openflow.kind(message) == openflow.PACKET_OUT
        )
        assert flood[:2] == (1, [openflow.FLOOD]) and direct[:2] == (2, [1])
        assert direct[2] == openflow.arp(openflow.host(2), openflow.host(1), operation=2)
        xids = [openflow.xid(message) for _, message in network.messages]
        assert xids == list(range(xids[0], xids[0] + 4))


def test_monitor(ryu: Path) -> None:
    with Hosted("ryu.app.simple_monitor_13", path=[ryu]) as host:
        network = Network(host, 2, 3)
        network.passes(35)
        for switch in (1, 2):
            assert network.kinds(switch).count(openflow.MULTIPART_REQUEST) == 6, "flows and ports, every 10 s"
        assert "datapath         port     rx-pkts" in network.lines()


def test_mac_table_by_rest(ryu: Path) -> None:
    with Hosted("ryu.app.simple_switch_rest_13", path=[ryu]) as host:
        network = Network(host, 1, 3)
        learn(network)
        table = f"/simpleswitch/mactable/{DPID}"
        assert json.loads(network.request("GET", table).body) == {openflow.host(1): 1, openflow.host(2): 2}
        before = len(network.messages)
        answer = network.request("PUT", table, json.dumps({"mac": openflow.host(3), "port": 3}).encode())
        assert answer.status == 200 and json.loads(answer.body)[openflow.host(3)] == 3
        assert network.kinds(1)[before:] == [openflow.FLOW_MOD] * 4, "each known host to the new one, and back"
        assert network.request("GET", "/simpleswitch/mactable/0000000000000009").status == 404
        assert network.request("GET", "/simpleswitch/nothing").status == 404


def lacpdu(port: int) -> bytes:
    actor = struct.pack(">BBH6sHHHB3x", 1, 20, 0xFFFF, b"\x02\0\0\0\0\x99", 9, 0xFF, port, 0x3D)
    partner = struct.pack(">BBH6sHHHB3x", 2, 20, 0, bytes(6), 0, 0, 0, 0)
    collector = struct.pack(">BBH12x", 3, 16, 0)
    return (
        bytes.fromhex("0180c2000002")
        + b"\x02\0\0\0\1"
        + bytes([port])
        + b"\x88\x09\x01\x01"
        + actor
        + partner
        + collector
        + bytes(2 + 50)
    )


def test_link_aggregation(ryu: Path, slow: bool) -> None:
    with Hosted("ryu.app.simple_switch_lacp_13", path=[ryu], slow=slow) as host:
        network = Network(host, 1, 4)
        for port in (1, 2):
            network.frame(1, port, lacpdu(port))
        replies = [outputs(message) for _, message in network.messages if openflow.kind(message) == openflow.PACKET_OUT]
        assert [(port, ports) for port, ports, _ in replies] == [(1, [openflow.IN_PORT]), (2, [openflow.IN_PORT])]
        assert all(frame[12:16] == b"\x88\x09\x01\x01" for _, _, frame in replies)
        assert "LACP received" in network.lines() and "the slave i/f has just been up" in network.lines()


def test_spanning_tree(ryu: Path, slow: bool) -> None:
    with Hosted("ryu.app.simple_switch_stp_13", path=[ryu], slow=slow) as host:
        network = Network(host, 3, 3, TRIANGLE)
        network.passes(60)
        last: dict[tuple[str, str], str] = {}
        for switch, port, state in re.findall(r"dpid=0+(\d): \[port=(\d)\] \w+ +/ (\w+)", network.lines()):
            last[switch, port] = state
        blocked = [end for end, state in last.items() if state == "BLOCK"]
        assert len(last) == 9 and blocked == [("3", "2")], "the port farthest from the root breaks the loop"
        assert all(state == "FORWARD" for end, state in last.items() if end not in blocked)


def test_topology_discovery(ryu: Path, slow: bool) -> None:
    with Hosted("ryu.app.rest_topology", path=[ryu], slow=slow, options=["--observe-links"]) as host:
        network = Network(host, 3, 3, TRIANGLE)
        network.passes(10)
        assert len(json.loads(network.request("GET", "/v1.0/topology/switches").body)) == 3
        links = json.loads(network.request("GET", "/v1.0/topology/links").body)
        found = {(int(link[end]["dpid"], 16), int(link[end]["port_no"])) for link in links for end in ("src", "dst")}
        assert len(links) == 6 and found == {end for link in TRIANGLE for end in link}


def test_topology_api(ryu: Path) -> None:
    both = sorted([[a, b, c, d] for (a, b), (c, d) in TRIANGLE] + [[c, d, a, b] for (a, b), (c, d) in TRIANGLE])
    with Hosted("ryu.topology.switches", str(APPS / "linked.py"), path=[ryu], options=["--observe-links"]) as host:
        network = Network(host, 3, 3, TRIANGLE)
        assert json.loads(network.request("GET", "/switches").body) == [[switch, [1, 2, 3]] for switch in (1, 2, 3)]
        network.passes(5)
        lldp = [outputs(message) for _, message in network.messages if openflow.kind(message) == openflow.PACKET_OUT]
        assert lldp and all(frame[12:14] == b"\x88\xcc" for _, _, frame in lldp)
        assert json.loads(network.request("GET", "/links").body) == both
        assert network.lines().count("added [") == 6 and "deleted" not in network.lines()
        network.passes(60)
        assert "deleted" not in network.lines(), "LLDP keeps them"
        network.cut((1, 1), (2, 2))
        network.passes(60)
        assert json.loads(network.request("GET", "/links").body) == [
            link for link in both if link not in ([1, 1, 2, 2], [2, 2, 1, 1])
        ]
        assert network.lines().count("deleted [") == 2
        network.run(wire.Down(3))
        assert json.loads(network.request("GET", "/links").body) == []
        assert [switch for switch, _ in json.loads(network.request("GET", "/switches").body)] == [1, 2]


def test_ofctl_rest_answers_when_the_switch_has(ryu: Path) -> None:
    description = struct.pack(">HH4x256s256s256s32s256s", 0, 0, b"Acme", b"Box", b"1.2", b"42", b"in the cellar")
    flow = struct.pack(">HBxIIHHHH4xQQQ", 56, 0, 9, 0, 7, 0, 0, 0, 5, 3, 300) + struct.pack(">HH4x", 1, 4)
    stats = struct.pack(">HH4x", 1, 0) + flow
    with Hosted("ryu.app.ofctl_rest", path=[ryu]) as host:
        host.one(wire.Up(1, openflow.features(1), openflow.ports(1, 3)))
        asked = host.batch(
            [
                wire.Request(number, "GET", path, [], b"")
                for number, path in enumerate(("/stats/desc/1", "/stats/flow/1"))
            ]
        )
        assert [result.answers for result in asked] == [[], []]
        xids = [openflow.xid(result.commands[0].message) for result in asked]
        replies = [
            openflow.message(openflow.MULTIPART_REPLY, body, xid)
            for body, xid in ((stats, xids[1]), (description, xids[0]))
        ]
        flows, described = (result.answers[0] for result in host.batch(wire.Message(1, reply) for reply in replies))
        assert (flows.request_id, flows.status, described.request_id, described.status) == (1, 200, 0, 200)
        (entry,) = json.loads(flows.body)["1"]
        assert (entry["priority"], entry["packet_count"], entry["cookie"], entry["match"]) == (7, 3, 5, {})
        assert json.loads(described.body)["1"] == {
            "mfr_desc": "Acme",
            "hw_desc": "Box",
            "sw_desc": "1.2",
            "serial_num": "42",
            "dp_desc": "in the cellar",
        }
        host.one(wire.Request(3, "GET", "/stats/desc/1", [], b""))
        late = [answer for result in host.passes(5) for answer in result.answers]
        assert [(answer.request_id, answer.status, answer.body) for answer in late] == [
            (3, 200, b'{"1": {}}')
        ], "a switch that says nothing"


def test_ofctl_rest(ryu: Path) -> None:
    with Hosted("ryu.app.ofctl_rest", path=[ryu]) as host:
        network = Network(host, 2, 3)
        assert json.loads(network.request("GET", "/stats/switches").body) == [1, 2]
        assert json.loads(network.request("GET", "/stats/flow/1").body) == {"1": []}
        assert network.kinds(1)[-1] == openflow.MULTIPART_REQUEST, "the answer waited for the switch's"
        flow = {"dpid": 2, "priority": 7, "match": {"in_port": 1}, "actions": [{"type": "OUTPUT", "port": 2}]}
        assert network.request("POST", "/stats/flowentry/add", json.dumps(flow).encode()).status == 200
        assert network.kinds(2)[-1] == openflow.FLOW_MOD
        assert network.request("GET", "/stats/flow/9").status == 404
        descriptions = json.loads(network.request("GET", "/stats/portdesc/1").body)["1"]
        assert [port["name"] for port in descriptions] == ["s1-eth1", "s1-eth2", "s1-eth3", "s1"]


def test_firewall(ryu: Path) -> None:
    with Hosted("ryu.app.rest_firewall", path=[ryu]) as host:
        network = Network(host, 1, 3)
        assert json.loads(network.request("GET", "/firewall/module/status").body)[0]["switch_id"] == DPID
        enabled = network.request("PUT", f"/firewall/module/enable/{DPID}")
        assert json.loads(enabled.body)[0]["command_result"]["result"] == "success"
        rule = {"nw_src": "10.0.0.1/32", "nw_dst": "10.0.0.2/32", "nw_proto": "ICMP"}
        answer = json.loads(network.request("POST", f"/firewall/rules/{DPID}", json.dumps(rule).encode()).body)
        assert answer[0]["command_result"][0]["result"] == "success"
        assert network.kinds(1)[-1] == openflow.FLOW_MOD
        listed = json.loads(network.request("GET", f"/firewall/rules/{DPID}").body)
        assert listed[0]["switch_id"] == DPID, "the switch of this network has no flows to tell"
        before = len(network.messages)
        blocked = network.frame(1, 1, openflow.arp(openflow.host(1)))
        assert "Blocked packet" in "".join(line.text for result in blocked for line in result.lines)
        assert len(network.messages) == before


def test_router(ryu: Path) -> None:
    with Hosted("ryu.app.rest_router", path=[ryu]) as host:
        network = Network(host, 1, 3)
        before = len(network.messages)
        answer = json.loads(network.request("POST", f"/router/{DPID}", b'{"address": "172.16.20.1/24"}').body)
        assert answer[0]["command_result"][0]["result"] == "success"
        assert openflow.FLOW_MOD in network.kinds(1)[before:]
        route = b'{"destination": "10.9.0.0/16", "gateway": "172.16.20.9"}'
        answer = json.loads(network.request("POST", f"/router/{DPID}", route).body)
        assert answer[0]["command_result"][0]["result"] == "success"
        asked = [outputs(message) for _, message in network.messages if openflow.kind(message) == openflow.PACKET_OUT]
        assert any(
            frame[12:14] == b"\x08\x06" and frame[38:42] == bytes([172, 16, 20, 9]) for _, _, frame in asked
        ), "it asks for the gateway"
        gateway, router = openflow.host(9), "02:00:00:00:01:01"
        before = len(network.messages)
        network.frame(
            1, 1, openflow.arp(gateway, router, bytes([172, 16, 20, 9]), bytes([172, 16, 20, 1]), operation=2)
        )
        assert openflow.FLOW_MOD in network.kinds(1)[before:], "the route's flow, now that the gateway is known"
        data = json.loads(network.request("GET", f"/router/{DPID}").body)[0]["internal_network"][0]
        assert data["address"][0]["address"] == "172.16.20.1/24"
        assert (data["route"][0]["destination"], data["route"][0]["gateway"]) == ("10.9.0.0/16", "172.16.20.9")


def test_applications_together_and_by_file(ryu: Path) -> None:
    folder = ryu / "ryu" / "app"
    with Hosted(
        str(folder / "simple_switch_rest_13.py"), "ryu.app.ofctl_rest", "os_ken.app.rest_topology", path=[ryu]
    ) as host:
        network = Network(host, 1, 3)
        learn(network)
        assert json.loads(network.request("GET", f"/simpleswitch/mactable/{DPID}").body)
        assert json.loads(network.request("GET", "/stats/switches").body) == [1]
        assert network.request("GET", "/v1.0/topology/links").status == 200
