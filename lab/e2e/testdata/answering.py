"""Answers each line of a client by what a program says about it."""

import os
import socketserver
import subprocess
import threading

from ryu.base import app_manager


class Upper(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(subprocess.run(["tr", "a-z", "A-Z"], input=line, capture_output=True, check=True).stdout)


class Answering(app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        host, port = os.environ["ANSWERS"].split(":")
        server = socketserver.ThreadingTCPServer((host, int(port)), Upper)
        threading.Thread(target=server.serve_forever, daemon=True).start()
