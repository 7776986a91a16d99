"""Serves a web page of its own with http.server, in a thread. Before that it asks the kernel for the interfaces."""

import json
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls

RTM_GETLINK, NLM_F_DUMP = 18, 0x301

with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
    kernel.send(struct.pack("=IHHIIB3x", 20, RTM_GETLINK, NLM_F_DUMP, 1, 0, 0))
    interfaces = kernel.recv(65536)


class Page(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.app.block(body["ip"])
        self.send_response(201)
        self.send_header("X-Mine", "yes")
        self.end_headers()
        self.wfile.write(f"{self.path} {body['ip']} {self.headers['Content-Type']}".encode())


class Webbing(app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.switches = []
        self.logger.info("netlink answers" if interfaces else "netlink is silent")
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        server = ThreadingHTTPServer(("127.0.0.1", 8123), Page)
        server.app = self
        server.serve_forever()

    @set_ev_cls(ofp_event.EventOFPStateChange, MAIN_DISPATCHER)
    def up(self, ev):
        self.switches.append(ev.datapath)

    def block(self, ip):
        for switch in self.switches:
            match = switch.ofproto_parser.OFPMatch(eth_type=0x800, ipv4_src=ip)
            switch.send_msg(switch.ofproto_parser.OFPFlowMod(switch, match=match))
