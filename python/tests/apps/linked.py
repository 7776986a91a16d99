"""Tells links and switches as ryu.topology.api knows them, and when they come and go."""

from ryu.app.wsgi import ControllerBase, Response, WSGIApplication, route
from ryu.base import app_manager
from ryu.controller.handler import set_ev_cls
from ryu.topology import api, event


def ends(link):
    return [link.src.dpid, link.src.port_no, link.dst.dpid, link.dst.port_no]


class Linked(app_manager.RyuApp):
    _CONTEXTS = {"wsgi": WSGIApplication}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        kwargs["wsgi"].register(LinkedRest, self)

    @set_ev_cls(event.EventSwitchEnter)
    def entered(self, ev):
        self.logger.info("entered %d of %d", ev.switch.dp.id, len(api.get_all_switch(self)))

    @set_ev_cls(event.EventLinkAdd)
    def added(self, ev):
        self.logger.info("added %s", ends(ev.link))

    @set_ev_cls(event.EventLinkDelete)
    def deleted(self, ev):
        self.logger.info("deleted %s", ends(ev.link))


class LinkedRest(ControllerBase):
    @route("linked", "/links")
    def links(self, req, **_):
        return Response(json=sorted(ends(link) for link in api.get_link(self.data, None)))

    @route("linked", "/switches")
    def switches(self, req, **_):
        return Response(
            json=[[switch.dp.id, [port.port_no for port in switch.ports]] for switch in api.get_switch(self.data, None)]
        )
