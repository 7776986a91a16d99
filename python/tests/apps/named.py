"""Imports the framework by both names, and uses more of it than most; what is wrong raises."""

import os_ken.app.wsgi
import os_ken.base.app_manager
import os_ken.lib.packet.ethernet
import ryu
import ryu.app.wsgi
import ryu.base.app_manager
from os_ken.controller import ofp_event as one
from ryu import log  # registers options
from ryu.controller import ofp_event as other
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls
from ryu.exception import RyuException
from ryu.lib import hub
from ryu.lib.packet import ethernet


class Named(ryu.base.app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        assert ryu.base.app_manager is os_ken.base.app_manager and ryu.app.wsgi is os_ken.app.wsgi
        assert log.CONF is ryu.cfg.CONF
        assert one is other and ethernet is os_ken.lib.packet.ethernet
        assert os_ken.base.app_manager.__name__ == os_ken.base.app_manager.__spec__.name == "os_ken.base.app_manager"
        assert issubclass(RyuException, Exception) and hub.HUB_TYPE == "holdfast"
        import ovs.db.idl

        assert ovs.db.idl._uuid_to_row("atom", None) == "atom", "as os-ken's client of OVSDB asks for it"
        for name in ("ryu.nothing", "ryu.app.nothing"):
            try:
                __import__(name)
            except ModuleNotFoundError as error:
                assert error.name == name, error
            else:
                raise AssertionError(name)

    @set_ev_cls(other.EventOFPStateChange, MAIN_DISPATCHER)
    def up(self, ev):
        assert ev.datapath.socket.getpeername() == ev.datapath.address
