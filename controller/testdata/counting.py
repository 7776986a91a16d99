"""Counts what it is asked to count, and ends or hangs its process when it is asked for that."""

import ctypes
import os

from ryu.app.wsgi import ControllerBase, Response, WSGIApplication, route
from ryu.base import app_manager
from ryu.lib import hub

CONFIGURATION = os.environ.get("COUNTING_CONFIGURATION", "")


class Counting(app_manager.RyuApp):
    _CONTEXTS = {"wsgi": WSGIApplication}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.count = 0
        kwargs["wsgi"].register(REST, {"app": self})


class REST(ControllerBase):
    def __init__(self, req, link, data, **config):
        super().__init__(req, link, data, **config)
        self.app = data["app"]

    @route("counting", "/count", methods=["GET", "PUT"])
    def count(self, req, **_):
        if req.method == "PUT":
            self.app.count += len(req.body)
        headers = {"X-Saw": ",".join(sorted(name for name in req.headers)), "Connection": "X-Hop", "X-Hop": "1"}
        return Response(body=str(self.app.count).encode(), headers=headers)

    @route("counting", "/echo")
    def echo(self, req, **_):
        return hub.WebSocketWSGI(self.answer)

    def answer(self, socket):
        while (message := socket.wait()) is not None:
            self.app.count += 1
            socket.send(message.upper())

    @route("counting", "/die", methods=["POST"])
    def die(self, req, **_):
        ctypes.CDLL(None)._exit(3)  # past the refusal of os._exit

    @route("counting", "/configuration", methods=["GET"])
    def configuration(self, req, **_):
        with open(CONFIGURATION) as file:
            return Response(body=file.read().encode())

    @route("counting", "/wait", methods=["POST"])
    def wait(self, req, **_):
        hub.Event().wait()

    @route("counting", "/hang", methods=["POST"])
    def hang(self, req, **_):
        while True:
            pass
