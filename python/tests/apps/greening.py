"""Works with eventlet, as programs outside of the framework do, and serves a page at a port of its own."""

import time

import eventlet

eventlet.monkey_patch()

from eventlet.green import time as green_time  # noqa: E402
from eventlet.queue import Queue  # noqa: E402
from ryu.base import app_manager  # noqa: E402
from ryu.lib import hub  # noqa: E402


class Greening(app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.queue = Queue(2)
        self.done = []
        self.pool = eventlet.GreenPool(2)
        for number in range(3):
            self.pool.spawn_n(self.work, number)
        hub.spawn(self.collect)
        self.server = hub.WSGIServer(("0.0.0.0", 9302), self.page)
        hub.spawn(self.server.serve_forever)

    def work(self, number):
        eventlet.sleep(1)
        green_time.sleep(0.5)
        self.queue.put((number, round(time.monotonic(), 1)))

    def collect(self):
        while True:
            self.done.append(self.queue.get())

    def page(self, environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [f"{environ['PATH_INFO']} {self.done}".encode()]
