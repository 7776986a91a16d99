"""Measures how long a switch takes to answer, as monitors of delay do."""

import time

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls


class Echoing(app_manager.RyuApp):
    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, ev):
        datapath = ev.msg.datapath
        datapath.send_msg(datapath.ofproto_parser.OFPEchoRequest(datapath, data=str(time.time()).encode()))

    @set_ev_cls(ofp_event.EventOFPEchoReply, MAIN_DISPATCHER)
    def reply(self, ev):
        self.logger.info("echo after %.3f s", time.time() - float(ev.msg.data))
