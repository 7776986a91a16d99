"""Closes a switch that sends a packet from port 1."""

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls


class Closing(app_manager.RyuApp):
    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, ev):
        if ev.msg.match["in_port"] == 1:
            ev.msg.datapath.close()
        ev.msg.datapath.send_barrier()
