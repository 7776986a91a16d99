"""Green threads that sleep in ways that a checkpoint keeps, and for a packet from port N in WAYS[N - 1], which it does
not.
"""

import contextlib
import functools
import random
import sys
import threading

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls
from ryu.lib import hub


def decorated(function):
    @functools.wraps(function)
    def around(*args, **kwargs):
        return function(*args, **kwargs)

    return around


class Sleeping(app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.turns = {}
        self.threads = [
            hub.spawn(self.count, "a", seconds=2),
            hub.spawn(functools.partial(self.count, "b"), 2),  # due at the same time, after the first
            hub.spawn(self.phases),
            hub.spawn(self.deep, 3),
            hub.spawn(self.ends),
            hub.spawn(self.polls),
            hub.spawn(hub.WSGIServer(("0.0.0.0", 9000), None).serve_forever),
        ]
        if sys.version_info >= (3, 11):
            self.threads.append(hub.spawn(self.tries))
        self.threads[0].name = "the first"
        self.started = []

    def say(self, name, *what):
        self.turns[name] = self.turns.get(name, 0) + 1
        alive = [thread.is_alive() for thread in self.threads]
        self.logger.info("%s %d %s %s %s", name, self.turns[name], what, alive, self.threads[0].name)

    def count(self, name, seconds):
        own = []
        while True:
            own.append(len(own))
            self.say(name, own, random.random())
            hub.sleep(seconds)

    @decorated
    def phases(self):
        last = None
        while True:
            last = ("one", last and last[0])
            hub.sleep(0.7 + random.random())
            self.say("phases", last)
            last = ("two", last)
            hub.sleep(0.3 + random.random())
            self.say("phases", last)

    def tries(self):
        last = 0
        while True:
            try:
                last += 1
                hub.sleep(0.9)
                self.say("tries", last // (last % 3))
            except ZeroDivisionError:
                self.say("tries", last, "failed")

    def deep(self, depth):
        if depth:
            self.deep(depth - 1)
        else:
            while True:
                self.waits(period=1)
                self.say("deep")

    def waits(self, period):
        hub.sleep(period)
        self.say("waits", period)

    def ends(self):
        hub.sleep(6)
        self.say("ends")

    def polls(self):
        while True:
            hub.sleep(0)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, ev):
        way = WAYS[ev.msg.match["in_port"] - 1]
        self.started.append(hub.spawn(way, self))

    def in_for(self):
        for _ in range(9):
            hub.sleep(1)

    def in_with(self):
        with contextlib.nullcontext():
            hub.sleep(1)

    def in_a_line(self):
        number = 1; hub.sleep(number)  # noqa: E702

    def in_a_generator(self):
        def steps():
            while True:
                hub.sleep(1)
                yield

        next(steps())

    def in_a_queue(self):
        hub.Queue().get(timeout=1)

    def awaited(self):
        thread = hub.spawn(self.ends)
        self.started.append(hub.spawn(thread.wait))
        hub.sleep(1)

    def in_several(self):
        while True:
            self.started.append(
                hub.sleep(1),
            )

    def after_a_call(self):
        hub.sleep(self.one())

    def one(self):
        self.started.append("once")
        return 1

    def with_a_lock(self):
        lock = threading.Lock()
        lock.acquire()
        hub.sleep(1)


WAYS = [
    Sleeping.in_for,
    Sleeping.in_with,
    Sleeping.in_a_line,
    Sleeping.in_a_generator,
    Sleeping.in_a_queue,
    Sleeping.awaited,
    Sleeping.with_a_lock,
    Sleeping.in_several,
    Sleeping.after_a_call,
]
