"""Ends its process, or wants to, in as many ways as there are ports."""

import ctypes
import os
import sys

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls


class Ending(app_manager.RyuApp):
    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, ev):
        port = ev.msg.match["in_port"]
        if port == 1:
            self.loop()
        elif port == 2:
            os.write(2, b"last words\n")
            ctypes.CDLL(None)._exit(3)  # past the refusal of os._exit
        elif port == 3:
            ctypes.string_at(0)
        elif port == 4:
            self.hoard = b"x" * (300 << 20)
            self.loop()
        elif port == 5:
            raise ValueError("no packets from port 5")
        ev.msg.datapath.send_barrier()

    def loop(self):
        turns = 0
        while sys is not None:
            turns += 1  # here it is
