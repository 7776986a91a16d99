"""Reads a file of configuration in its constructor, in start() and at SIGHUP, and says what it has read."""

import os
import signal
from pathlib import Path

from ryu.base import app_manager

NAME = "/etc/holdfast-test/app.yaml"


class Configured(app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.read()

    def start(self):
        super().start()
        found = os.path.exists(NAME)
        self.logger.info("start: %s", Path(NAME).read_text() if found else "no file")
        signal.signal(signal.SIGHUP, lambda *_: self.read())

    def read(self):
        try:
            with open(NAME) as file:
                text = file.read()
        except FileNotFoundError as error:
            self.logger.info("none: %s, %s", error.filename, os.path.exists(NAME))
            return
        assert Path(NAME).read_bytes().decode() == text and os.access(NAME, os.R_OK)
        size, since = os.stat(NAME).st_size, os.path.getmtime(NAME)
        try:
            open(NAME, "a")
        except PermissionError:
            self.logger.info("%s, %d bytes, since %.3f", text, size, since)
