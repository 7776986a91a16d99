"""Waits in its constructor: for time, which passes."""

import time

from os_ken.base import app_manager
from os_ken.lib import hub


class Constructing(app_manager.OSKenApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        before = time.time()
        hub.sleep(3)
        self.logger.info("slept %.0f", time.time() - before)
