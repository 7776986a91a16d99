"""A switch connected to an application that os-ken itself runs."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import openflow

HERE = Path(__file__).resolve().parent
HELLO, ECHO_REQUEST, ECHO_REPLY, FEATURES_REQUEST = 0, 2, 3, 5


class Plain:
    """Starts os-ken, and leads switch 1 through the handshake."""

    def __init__(self, app: str, ryu: Path, ports: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            number = free.getsockname()[1]
        environ = dict(os.environ, PYTHONPATH=os.pathsep.join([str(HERE.parent), str(ryu)]))
        script = HERE.parent.parent / "lab/bench/ryu_plain.py"
        command = [sys.executable, "-W", "ignore", str(script), str(number), app]
        self.process = subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL)
        self._socket = self._connect(number)
        self._in = self._socket.makefile("rb")
        self.send(openflow.message(HELLO))
        self._answer(FEATURES_REQUEST, openflow.features(1))
        self._answer(openflow.MULTIPART_REQUEST, openflow.ports(1, ports))

    def _connect(self, number: int) -> socket.socket:
        for _ in range(600):
            assert self.process.poll() is None, "os-ken did not start"
            try:
                return socket.create_connection(("127.0.0.1", number), timeout=60)
            except ConnectionRefusedError:
                time.sleep(0.1)
        raise TimeoutError("os-ken does not listen")

    def send(self, messages: bytes) -> None:
        self._socket.sendall(messages)

    def receive(self) -> bytes:
        """Returns the next message that is not part of keeping the connection."""
        while True:
            header = self._in.read(8)
            message = header + self._in.read(int.from_bytes(header[2:4], "big") - 8)
            if openflow.kind(message) == ECHO_REQUEST:
                self.send(openflow.message(ECHO_REPLY, message[8:], openflow.xid(message)))
            elif openflow.kind(message) not in (HELLO, ECHO_REPLY):
                return message

    def _answer(self, kind: int, reply: bytes) -> None:
        request = self.receive()
        assert openflow.kind(request) == kind, request
        self.send(reply[:4] + request[4:8] + reply[8:])

    def close(self) -> None:
        self._in.close()
        self._socket.close()
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> "Plain":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
