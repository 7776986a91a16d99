"""Sockets of applications: they work in `holdfast run`, and are refused on a cluster."""

import select
import socket
from pathlib import Path

import openflow
import pytest
from hosting import Died, Hosted
from network import Network

from holdfast_ryu import wire

APP = Path(__file__).parent / "apps" / "serving.py"
MEGABYTES = 4 << 20


class Alone(Hosted):
    """A host that gets a timer whenever it asks for an input."""

    def stirred(self) -> wire.Result:
        if not self.asked:
            assert self.frame(wire.STIRRED) == b""
        self.asked = False
        result = self.one(wire.Tick())
        assert not result.failures, result.failures[0].trace
        return result

    def until(self, wanted: str) -> wire.Result:
        """The result with a log line."""
        while True:
            result = self.stirred()
            if wanted in [line.text for line in result.lines]:
                return result


def test_sockets_yield() -> None:
    with Alone(str(APP), alone=True) as host:
        said = [line.text for line in host.ready.lines]
        assert "heard LOADING" in said, "a constructor may wait for a socket"
        udp, tcp, stream, web = map(int, next(text for text in said if text.startswith("ports")).split()[1:])
        host.one(wire.Up(1, openflow.features(1), openflow.ports(1)))
        host.one(wire.Message(1, openflow.packet_in(1, b"x" * 64)))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.sendto(b"datagram", ("127.0.0.1", udp))
            result = host.until("heard datagram")
            assert len(result.commands) == 1, "what it sends belongs to that input"
        with socket.create_connection(("127.0.0.1", tcp)) as client:
            client.sendall(b"one\n")
            assert answered(host, client, 4) == b"ONE\n"
        with socket.create_connection(("127.0.0.1", web)) as client:
            client.sendall(b"GET /a/path HTTP/1.0\r\n\r\n")
            assert answered(host, client, 10_000).endswith(b"\r\n\r\n/a/path\n"), "the output of a program"
        with socket.create_connection(("127.0.0.1", stream)) as client:
            client.setblocking(False)
            left = MEGABYTES
            while left:
                readable, writable, _ = select.select([host._sock], [client], [], 60)
                if writable:
                    left -= client.send(bytes(min(left, 1 << 20)))
                if readable:
                    host.stirred()
            client.shutdown(socket.SHUT_WR)
            client.setblocking(True)
            assert len(answered(host, client, MEGABYTES)) == MEGABYTES

        quiet = host.one(wire.Message(1, openflow.packet_in(2, b"x" * 64))), *host.passes(3)
        assert [line.text for result in quiet for line in result.lines][-1] == "nothing came in time"


def answered(host: Alone, client: socket.socket, size: int) -> bytes:
    """What a client gets, until it has that or the connection ends, while the host asks for inputs."""
    got = b""
    while len(got) < size:
        readable, _, _ = select.select([host._sock, client], [], [], 60)
        assert readable
        if client in readable:
            data = client.recv(1 << 20)
            if not data:
                break
            got += data
        if host._sock in readable:
            host.stirred()
    return got


def test_web_server_in_a_thread_gets_requests_from_the_log() -> None:
    """Of http.server, on a cluster. The application has read the interfaces of the machine before, as scapy does."""
    with Hosted(str(APP.parent / "webbing.py")) as host:
        assert "netlink answers" in [line.text for line in host.ready.lines]
        network = Network(host, 1, 2)
        answer = network.request("POST", "/port/8123/block/a%20b?for=9", b'{"ip": "10.0.0.9"}')
        assert (answer.status, answer.body) == (201, b"/block/a%20b?for=9 10.0.0.9 application/json")
        assert ("X-Mine", "yes") in answer.headers and network.kinds(1) == [openflow.FLOW_MOD]
        assert network.request("GET", "/port/8123/").status == 501, "it has no method for that"


@pytest.mark.parametrize(
    "call", ["hub.listen(('', 0))", "socket.socket().recv(1)", "socket.create_server(('', 0)).accept()",
             "select.select([socket.socket()], [], [])", "hub.StreamServer(('', 0), print)",
             "socket.create_connection(('127.0.0.1', 9))", "socket.socket().connect_ex(('127.0.0.1', 9))"]
)
def test_cluster_refuses(call: str, tmp_path: Path) -> None:
    app = tmp_path / "mine.py"
    app.write_text(
        "import select, socket\nfrom ryu.base import app_manager\nfrom ryu.lib import hub\n"
        f"class Mine(app_manager.RyuApp):\n    def start(self):\n        {call}\n"
    )
    with pytest.raises(Died, match="mine.py, line 6, in start: NoSocket: .*not in the log.*`holdfast run`"):
        Hosted(str(app))


def test_cluster_sends_datagrams(tmp_path: Path) -> None:
    app = tmp_path / "mine.py"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(60)
        app.write_text(
            "import socket\nfrom ryu.base import app_manager\nclass Mine(app_manager.RyuApp):\n    def start(self):\n"
            "        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            f"        client.connect({server.getsockname()!r})\n        client.send(b'alarm')\n"
        )
        with Hosted(str(app)):
            assert server.recv(100) == b"alarm"
