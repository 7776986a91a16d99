"""Answers each line of a client by what a program says about it, and notes that in a file. At "die" the host dies."""

import ctypes
import os
import socketserver
import subprocess
import threading

from ryu.base import app_manager


class Upper(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            if line == b"die\n":
                ctypes.string_at(0)
            with open(os.environ["NOTES"], "ab") as notes:
                notes.write(line)
            self.wfile.write(subprocess.run(["tr", "a-z", "A-Z"], input=line, capture_output=True, check=True).stdout)


class Answering(app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        host, port = os.environ["ANSWERS"].split(":")
        socketserver.TCPServer.allow_reuse_address = True
        server = socketserver.ThreadingTCPServer((host, int(port)), Upper)
        threading.Thread(target=server.serve_forever, daemon=True).start()
