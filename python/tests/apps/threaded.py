"""Starts threads of the operating system, which the host does not schedule."""

import threading
import time

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls
from ryu.lib import hub


class Threaded(app_manager.RyuApp):
    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, ev):
        thread = threading.Thread(target=self.work, args=(ev.msg.datapath,), daemon=True)
        thread.start()
        if ev.msg.xid % 2:
            thread.join()

    def work(self, datapath):
        for _ in range(10):
            datapath.send_barrier()
            hub.spawn(self.logger.info, "green")
            hub.Event().set()
            time.sleep(0.001)
            hub.sleep(0.001)
