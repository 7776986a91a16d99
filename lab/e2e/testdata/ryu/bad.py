"""Sends a command for each packet, and misbehaves for some. The last word of a packet says how."""

import ctypes
import os
import signal
import socket

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls


class Bad(app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen = 0

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, ev):
        self.seen += 1
        self.send(ev.msg.datapath, self.seen)
        word = ev.msg.data[14:].split()[-1].decode()
        getattr(self, "do_" + word, lambda datapath: None)(ev.msg.datapath)

    def send(self, datapath, number):
        datapath.send_msg(datapath.ofproto_parser.OFPFlowMod(datapath, cookie=number))

    def do_raise(self, datapath):
        raise ValueError("no such packets, please")

    def do_loop(self, datapath):
        while True:
            signal.pause()  # a loop that does not heat the machine

    def do_exit(self, datapath):
        ctypes.CDLL(None)._exit(3)  # past the refusal of os._exit

    def do_proc(self, datapath):
        with open("/proc/self/stat") as file:
            self.send(datapath, int(file.read().split()[0]))

    def do_socket(self, datapath):
        with socket.socket() as mine:
            mine.bind(("127.0.0.1", 0))
            self.send(datapath, mine.getsockname()[1])
