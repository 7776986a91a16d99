"""Sends from green threads that a plain class of _CONTEXTS and the module itself have started."""

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls
from ryu.lib import hub

datapaths = []


def poll():
    while True:
        hub.sleep(1)
        for datapath in datapaths:
            datapath.send_barrier()


class Poller:
    def __init__(self):
        hub.spawn(poll)


class Polling(app_manager.RyuApp):
    _CONTEXTS = {"poller": Poller}

    @set_ev_cls(ofp_event.EventOFPStateChange, MAIN_DISPATCHER)
    def up(self, ev):
        datapaths.append(ev.datapath)


hub.spawn(poll)
