"""Reads what the host does not hide: its outputs differ from process to process."""

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls


class Prying(app_manager.RyuApp):
    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, ev):
        datapath = ev.msg.datapath
        with open("/proc/self/stat", "rb") as file:
            data = file.read(16)
        datapath.send_msg(datapath.ofproto_parser.OFPEchoReply(datapath, data=data))
