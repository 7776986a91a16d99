"""Sends as many messages of a size as a request asks for."""

from ryu.app.wsgi import ControllerBase, Response, WSGIApplication, route
from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls


class Flooding(app_manager.RyuApp):
    _CONTEXTS = {"wsgi": WSGIApplication}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        kwargs["wsgi"].register(FloodingRest, self)
        self.datapath = None

    @set_ev_cls(ofp_event.EventOFPStateChange, MAIN_DISPATCHER)
    def up(self, ev):
        self.datapath = ev.datapath


class FloodingRest(ControllerBase):
    @route("flood", "/flood/{count}/{size}", methods=["POST"])
    def flood(self, req, count, size, **_):
        datapath = self.data.datapath
        for _ in range(int(count)):
            datapath.send_msg(datapath.ofproto_parser.OFPEchoReply(datapath, data=bytes(int(size) - 8)))
        return Response(text="done")
