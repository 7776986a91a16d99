"""Counts reloads in a metric, which it serves at a port of its own."""

import signal

import prometheus_client
from ryu.base import app_manager
from ryu.lib import hub


class Metering(app_manager.RyuApp):
    PORT, STEP = 9302, 1

    def start(self):
        super().start()
        self.count = prometheus_client.Gauge("reloads", "a name that another application uses, too")
        signal.signal(signal.SIGHUP, lambda *_: self.count.inc(self.STEP))
        self.server = hub.WSGIServer(("0.0.0.0", self.PORT), self.page)
        hub.spawn(self.server.serve_forever)

    def page(self, environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        registry = prometheus_client.REGISTRY
        if environ["QUERY_STRING"]:
            registry = registry.restricted_registry([environ["QUERY_STRING"]])
        return [prometheus_client.generate_latest(registry)]
