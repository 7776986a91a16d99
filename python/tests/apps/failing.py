"""Learns from each packet, sends twice, and raises between that for packets from port 2."""

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls
from ryu.lib import hub


class Failing(app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen = 0

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, ev):
        datapath = ev.msg.datapath
        self.seen += 1
        datapath.send_msg(datapath.ofproto_parser.OFPBarrierRequest(datapath))
        port = ev.msg.match["in_port"]
        if port == 2:
            raise ValueError("no packets from port 2, please")
        if port == 3:
            hub.spawn(self.background, datapath)
        if port == 4:
            while True:
                datapath.send_msg(datapath.ofproto_parser.OFPBarrierRequest(datapath))
        if port == 5:
            raise SystemExit("enough")
        if port == 6:
            hub.spawn_after(0.5, datapath.send_barrier)
        self.logger.info("seen %d", self.seen)

    def background(self, datapath):
        datapath.send_msg(datapath.ofproto_parser.OFPBarrierRequest(datapath))
        raise KeyError("in the background")
