"""WebSockets of applications, as Holdfast asks for them."""

import json
import struct
from pathlib import Path

import openflow
import pytest
from hosting import Hosted
from network import Network
from test_apps import TRIANGLE, learn

from holdfast_ryu import websockets, wire

PATIENCE_SECONDS = 120  # of wsgi, which only a host can import
pytest.importorskip("tinyrpc")


class Client:
    """A client of a WebSocket, behind Holdfast."""

    def __init__(self, network: Network, path: str, name: str = "one") -> None:
        self._network, self._name, self._path, self.got = network, name, path, 0
        self._requests = 100
        self.status = self.ask("open", method="GET")[0]

    def ask(self, what: str, number: int = 0, body: bytes = b"", method: str = "POST") -> tuple[int, bytes]:
        """Asks, and returns the answer, if there is one: status 0 means that it waits."""
        self._requests += 1
        headers = [(websockets.HEADER, f"{what} {self._name} {number}")]
        results = self._network.run(wire.Request(self._requests, method, self._path, headers, body))
        answers = [answer for result in results for answer in result.answers if answer.request_id == self._requests]
        return (answers[0].status, answers[0].body) if answers else (0, b"")

    def next(self) -> list[str]:
        status, body = self.ask("next", self.got)
        assert status in (0, 200)
        found = []
        while body:
            kind, size = struct.unpack_from(">BI", body)
            assert kind == websockets.TEXT
            found.append(body[5 : 5 + size].decode())
            body = body[5 + size :]
        self.got += len(found)
        return found

    def send(self, message: object) -> int:
        return self.ask("message", websockets.TEXT, json.dumps(message).encode())[0]


def test_rpc_server(ryu: Path) -> None:
    with Hosted("ryu.app.simple_switch_websocket_13", path=[ryu]) as host:
        network = Network(host, 1, 3)
        client = Client(network, "/simpleswitch/ws")
        assert client.status == websockets.OPENED
        assert client.next() == []
        learn(network)
        told = client.next()
        assert len(told) == 2 and all("arp" in text for text in told), "every packet is told"
        assert client.ask("next", 0)[0] == 200, "what was not acknowledged comes again"
        assert client.next() == []
        assert client.send({"jsonrpc": "2.0", "id": 1, "method": "get_arp_table", "params": {}}) == 200
        (answer,) = client.next()
        assert json.loads(answer)["result"] == {"1": {openflow.host(1): 1, openflow.host(2): 2}}
        assert client.ask("close")[0] == 200 and client.send("late") == websockets.UNKNOWN
        assert network.request("GET", "/simpleswitch/ws").status == 400
        assert Client(network, "/elsewhere").status == 404


def test_rpc_client(ryu: Path) -> None:
    with Hosted("ryu.app.ws_topology", "ryu.app.simple_switch_13", path=[ryu], options=["--observe-links"]) as host:
        network = Network(host, 3, 2, TRIANGLE)
        client = Client(network, "/v1.0/topology/ws")
        network.run(wire.Down(3))
        called = set()
        while texts := client.next():
            for text in texts:
                call = json.loads(text)
                called.add(call["method"])
                client.send({"id": call["id"], "jsonrpc": "2.0", "result": ""})
        assert "event_switch_leave" in called


def test_client_that_is_gone(ryu: Path) -> None:
    with Hosted("ryu.app.simple_switch_websocket_13", path=[ryu]) as host:
        network = Network(host, 1, 3)
        client = Client(network, "/simpleswitch/ws")
        network.passes(websockets.SILENCE_SECONDS - 1)
        assert client.send("still here") == 200
        network.passes(websockets.SILENCE_SECONDS + 1)
        assert client.ask("next", 0)[0] in (200, websockets.GONE)
        network.passes(websockets.SILENCE_SECONDS + 1)
        assert client.ask("next", 9)[0] == websockets.UNKNOWN


@pytest.mark.parametrize(("path", "status"), [("/elsewhere", 404), ("/sleep/1000", 0)], ids=["refused", "late"])
def test_connections_that_are_not_opened_are_forgotten(ryu: Path, path: str, status: int) -> None:
    waiting = str(Path(__file__).parent / "apps" / "waiting.py")
    with Hosted("ryu.app.simple_switch_websocket_13", waiting, path=[ryu]) as host:
        network = Network(host, 0, 0)
        for number in range(websockets.CONNECTIONS):
            assert Client(network, path, str(number)).status == status
        network.passes(PATIENCE_SECONDS)
        network.request("GET", "/nothing")
        assert Client(network, "/simpleswitch/ws").status == websockets.OPENED
