"""Waits for switches and for time, in all the ways there are."""

from ryu.app.ofctl import api
from ryu.app.wsgi import ControllerBase, Response, WSGIApplication, route
from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls
from ryu.lib import hub


class Waiting(app_manager.RyuApp):
    _CONTEXTS = {"wsgi": WSGIApplication}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        kwargs["wsgi"].register(WaitingRest, {"app": self})
        self.datapath = None
        self.beats = 0
        hub.spawn(self.beat)

    def beat(self):
        while True:
            hub.sleep(2)
            self.beats += 1
            self.logger.info("beat %d", self.beats)

    @set_ev_cls(ofp_event.EventOFPStateChange, MAIN_DISPATCHER)
    def up(self, ev):
        self.datapath = ev.datapath
        hub.spawn(self.ask)

    def ask(self):
        parser = self.datapath.ofproto_parser
        reply = api.send_msg(self, parser.OFPDescStatsRequest(self.datapath), reply_cls=parser.OFPDescStatsReply)
        self.logger.info("made by %s", reply.body.mfr_desc.decode())

    def barrier(self):
        parser = self.datapath.ofproto_parser
        return api.send_msg(self, parser.OFPBarrierRequest(self.datapath), reply_cls=parser.OFPBarrierReply)


class WaitingRest(ControllerBase):
    @route("waiting", "/barrier", methods=["POST"])
    def barrier(self, req, **_):
        reply = self.data["app"].barrier()
        return Response(text=f"barrier {reply.xid} at beat {self.data['app'].beats}\n")

    @route("waiting", "/sleep/{seconds}", methods=["GET"])
    def sleep(self, req, seconds, **_):
        hub.sleep(float(seconds))
        return Response(json={"slept": seconds, "query": dict(req.params)})

    @route("waiting", "/fail", methods=["GET"])
    def fail(self, req, **_):
        self.data["app"].datapath.send_msg(
            self.data["app"].datapath.ofproto_parser.OFPBarrierRequest(self.data["app"].datapath)
        )
        raise RuntimeError("no answer for you")
