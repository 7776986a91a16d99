from ryu.base import app_manager
from ryu.lib import hub


class Stuck(app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        hub.Event().wait()
