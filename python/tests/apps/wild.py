"""Says and sends what nobody expects, one thing for each port."""

import sys

from ryu.app.wsgi import ControllerBase, Response, WSGIApplication, route
from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls
from ryu.lib import hub


class Unspeakable:
    def __str__(self):
        raise ValueError("cannot be said")

    __repr__ = __str__


class Wild(app_manager.RyuApp):
    _CONTEXTS = {"wsgi": WSGIApplication}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        kwargs["wsgi"].register(WildRest)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, ev):
        datapath = ev.msg.datapath
        port = ev.msg.match["in_port"]
        if port == 1:
            self.logger.info("half a character: \ud800, and not text: \udcff")
        elif port == 2:
            self.logger.info("%d", "text")
            self.logger.info("%s", Unspeakable())
            self.logger.info(Unspeakable())
        elif port == 3:
            self.logger.log(-5, "below")
            self.logger.log(5_000, "above")
        elif port == 4:
            datapath.send(b"no message")
        elif port == 5:
            hub.spawn(hub.sleep, 1e300)
            hub.spawn(hub.sleep, float("inf"))
        elif port == 6:
            raise type("Odd", (Exception,), {"__str__": Unspeakable.__str__})
        elif port == 7:
            for _ in range(200):
                hub.spawn(self.recurse)
        elif port == 8:
            print("x" * 100_000, end="")
            print("y" * 100_000, file=sys.stderr)
        elif port == 9:
            for number in range(2_000):
                self.logger.info("line %d", number)
        elif port == 10:
            hub.spawn_after(-5, hub.sleep, -1)
            hub.Queue().empty()
        elif port == 11:
            hub.kill(hub.spawn(hub.sleep, 1))
        elif port == 12:
            message = datapath.ofproto_parser.OFPBarrierRequest(datapath)
            message.set_xid(1)
            message.serialize()
            datapath.send(message.buf + message.buf)

    def recurse(self):
        self.recurse()


class WildRest(ControllerBase):
    @route("wild", "/wild/status")
    def status(self, req, **_):
        return Response(status=99999)

    @route("wild", "/wild/header")
    def header(self, req, **_):
        return Response(text="odd", headerlist=[("X-Odd", "\u00e9")])

    @route("wild", "/wild/long")
    def long(self, req, **_):
        return Response(body=bytes(17 << 20))
