"""Cannot be made while a file exists. Otherwise it floods packets."""

import os

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls


class Refusing(app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if os.path.exists(os.environ["REFUSE"]):
            raise ConnectionError("no database today")

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, ev):
        datapath = ev.msg.datapath
        actions = [datapath.ofproto_parser.OFPActionOutput(datapath.ofproto.OFPP_FLOOD)]
        datapath.send_msg(
            datapath.ofproto_parser.OFPPacketOut(
                datapath, datapath.ofproto.OFP_NO_BUFFER, ev.msg.match["in_port"], actions, ev.msg.data
            )
        )
