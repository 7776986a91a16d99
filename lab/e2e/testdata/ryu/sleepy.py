"""Answers requests when it has slept, and counts them."""

from ryu.app.wsgi import ControllerBase, Response, WSGIApplication, route
from ryu.base import app_manager
from ryu.lib import hub


class Sleepy(app_manager.RyuApp):
    _CONTEXTS = {"wsgi": WSGIApplication}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.asked = self.answered = 0
        kwargs["wsgi"].register(SleepyRest, {"app": self})


class SleepyRest(ControllerBase):
    def __init__(self, req, link, data, **config):
        super().__init__(req, link, data, **config)
        self.app = data["app"]

    @route("sleepy", "/sleepy/{seconds}", methods=["PUT"])
    def sleep(self, req, seconds, **_):
        self.app.asked += 1
        hub.sleep(int(seconds))
        self.app.answered += 1
        return Response(text="slept")

    @route("sleepy", "/sleepy", methods=["GET"])
    def count(self, req, **_):
        return Response(text=f"{self.app.asked} asked, {self.app.answered} answered")
