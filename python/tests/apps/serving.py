"""Has sockets of its own, in all the ways that applications have them."""

import selectors
import socket
import socketserver
import subprocess
import threading

import eventlet
from eventlet import wsgi
from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls
from ryu.lib import hub


class Upper(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line.upper())


class Serving(app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.datapath = None
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.tcp = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Upper)
        self.stream = hub.listen(("127.0.0.1", 0))
        hub.spawn(self.receive)
        threading.Thread(target=self.tcp.serve_forever, daemon=True).start()
        hub.spawn(self.accept)
        web = eventlet.listen(("127.0.0.1", 0))
        hub.spawn(wsgi.server, web, self.site)
        ports = [sock.getsockname()[1] for sock in (self.udp, self.tcp.socket, self.stream, web)]
        self.logger.info("ports %s", " ".join(map(str, ports)))
        with socket.create_connection(self.tcp.server_address) as client:
            client.sendall(b"loading\n")
            self.logger.info("heard %s", client.recv(100).decode().strip())

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, ev):
        self.datapath = ev.msg.datapath
        if ev.msg.match["in_port"] == 2:
            waiting = selectors.DefaultSelector()
            waiting.register(self.udp, selectors.EVENT_READ)
            self.logger.info("nothing came: %s", waiting.select(timeout=1))
            self.udp.settimeout(1)
            try:
                self.udp.recv(1)
            except TimeoutError:
                self.logger.info("nothing came in time")

    def site(self, environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [subprocess.run(["echo", environ["PATH_INFO"]], capture_output=True, check=True).stdout]

    def receive(self):
        while True:
            data, _ = self.udp.recvfrom(100)
            self.logger.info("heard %s", data.decode())
            self.datapath.send_barrier()

    def accept(self):
        while True:
            connection, _ = self.stream.accept()
            hub.spawn(self.count, connection)

    def count(self, connection):
        total = 0
        while data := connection.recv(1 << 16):
            total += len(data)
        connection.sendall(bytes(total))
        connection.close()
