"""Gets, one for each port, what a checkpoint cannot keep."""

import threading
import time

from ryu.app.wsgi import ControllerBase, Response, WSGIApplication, route
from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls
from ryu.lib import hub

LOCKS = []


class Fussy(Exception):
    def __init__(self, one, other):
        super().__init__(one)


class Unkept(app_manager.RyuApp):
    _CONTEXTS = {"wsgi": WSGIApplication}
    shared = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.wsgi = kwargs["wsgi"]
        self.wsgi.register(UnkeptRest, {})

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, ev):
        port = ev.msg.match["in_port"]
        if port == 1:
            self.file = open(__file__)
        elif port == 2:
            self.function = lambda: port
        elif port == 3:
            LOCKS.append(threading.Lock())
            LOCKS[0].acquire()
        elif port == 4:
            hub.spawn_after(100, self.later)
        elif port == 5:
            hub.Timeout(100)
        elif port == 6:
            Unkept.shared = (number for number in range(3))
        elif port == 7:
            self.error = Fussy(1, 2)
        elif port == 8:
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        elif port == 9:
            self.wsgi.mapper.connect("later", "/later", controller=UnkeptRest, action="wait")
        elif port == 10:
            self.chain = []
            for _ in range(100_000):
                self.chain = [self.chain]
        elif port == 11:
            raise hub.TaskExit

    def later(self):
        time.sleep(1)


class UnkeptRest(ControllerBase):
    @route("unkept", "/wait")
    def wait(self, req, **_):
        hub.sleep(9)
        return Response(text="done")
