"""Keeps state of all kinds and in all places, and tells all of it with each packet."""

import collections
import datetime
import functools
import itertools
import random
import tempfile
import threading
import time
import uuid
import warnings

from ryu.app.wsgi import ControllerBase, Response, WSGIApplication, route
from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from ryu.lib import hub
from ryu.ofproto import ofproto_v1_3

NOTHING = object()
SEEN = {}
NAMES = {"first"}
total = 0
hook = None
Place = collections.namedtuple("Place", "switch port")


def default(value=NOTHING):
    return "nothing" if value is NOTHING else "something"


def remember(key, known=SEEN):
    known[key] = known.get(key, 0) + 1


def undecorated(method):
    def wrapper(*args):
        return method(*args)

    return wrapper


class Station:
    """Refers to itself, and is in a set."""

    count = 0
    recent = []

    def __init__(self, address):
        Station.count += 1
        self.address = address
        self.peers = {self}
        self.recent.append(address)

    def __hash__(self):
        return hash(self.address)

    def __eq__(self, other):
        return self.address == other.address

    class Inner:
        last = None


class Keeping(app_manager.RyuApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]
    _CONTEXTS = {"wsgi": WSGIApplication}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.stations = {}
        kwargs["wsgi"].register(KeepingRest, {"stations": self.stations, "app": self})
        self.datapaths = set()
        self.gone = []
        self.addresses = set()
        self.pairs = {}
        self.waiting = collections.deque(maxlen=3)
        self.order = collections.OrderedDict()
        self.counts = collections.defaultdict(list)
        self.numbers = itertools.count(5)
        self.chance = random.Random()
        self.system = random.SystemRandom()
        self.lock, self.guard = threading.Lock(), hub.Semaphore(2)
        self.event, self.queue = hub.Event(), hub.Queue()
        self.call = functools.partial(self.told, "partly")
        self.describe = lambda: f"{self.name} of {len(self.datapaths)}"
        self.started = hub.spawn(hub.sleep, 1.5)
        self.message = self.day = self.missing = NOTHING
        self.proto = ofproto_v1_3
        self.apps = {self}

    @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])
    def changed(self, ev):
        if ev.state == MAIN_DISPATCHER:
            self.datapaths.add(ev.datapath)
        else:
            self.datapaths.discard(ev.datapath)
            self.gone.append(ev.datapath)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    @undecorated
    def packet_in(self, ev):
        global total, hook
        msg = ev.msg
        port, address = msg.match["in_port"], msg.data[6:12].hex(":")
        if port == 3 and total > 20:
            raise LookupError(f"not after {total}")
        total += 1
        hook = default if total % 2 else remember
        remember(port)
        NAMES.add(address)
        self.addresses.add(address)
        if len(self.addresses) > 12:
            self.addresses.pop()
        self.addresses.discard(f"00:00:00:00:00:{total % 256:02x}")
        station = self.stations.setdefault(address, Station(address))
        Station.Inner.last = station
        self.pairs[frozenset([address, port, "x", "y", "z"])] = Place(msg.datapath, port)
        self.waiting.append(station)
        self.order[port] = total
        self.order.move_to_end(port, last=total % 3 == 0)
        self.counts[port].append(next(self.numbers))
        self.message, self.day = msg, datetime.datetime.now().date()
        self.queue.put(self.event)
        self.queue.get()
        print(f"{total} ", end="" if total % 4 else "\n")
        warnings.warn("each time", UserWarning, stacklevel=1)
        self.logger.setLevel(10 + 10 * (total % 2))
        self.logger.debug("debug")
        self.tell()
        for datapath in self.datapaths:
            datapath.send_msg(datapath.ofproto_parser.OFPEchoReply(datapath, data=self.chance.randbytes(8)))

    def told(self, *words):
        return words

    def tell(self):
        with self.lock, self.guard:
            self.logger.error(
                "%s",
                [
                    SEEN,
                    list(NAMES),
                    total,
                    hook.__name__,
                    default(),
                    default(self.missing),
                    Station.count,
                    Station.recent[-3:],
                ],
            )
        self.logger.error(
            "%s",
            [
                list(self.addresses),
                [datapath.id for datapath in self.datapaths],
                [datapath.xid for datapath in self.gone],
            ],
        )
        self.logger.error("%s", [[list(names) for names in self.pairs], [place.port for place in self.pairs.values()]])
        self.logger.error(
            "%s",
            [
                [station.address for station in self.waiting],
                all(station.peers == {station} for station in self.waiting),
            ],
        )
        self.logger.error(
            "%s", [self.waiting[-1] is Station.Inner.last, self.stations[self.waiting[-1].address] is self.waiting[-1]]
        )
        self.logger.error(
            "%s",
            [
                self.order,
                self.counts,
                self.call(),
                self.describe(),
                self.started.is_alive(),
                self.message.datapath.id,
                self.day,
            ],
        )
        self.logger.error(
            "%s",
            [random.random(), self.system.random(), uuid.uuid1(), tempfile.mktemp(), time.time(), time.monotonic()],
        )
        self.logger.error(
            "%s",
            [
                hash(self),
                self in self.apps,
                self.proto is ofproto_v1_3,
                {self, *self.datapaths} == {self} | self.datapaths,
            ],
        )


class KeepingRest(ControllerBase):
    asked = []

    @route("keeping", "/stations")
    def list(self, req, **_):
        self.asked.append(req.path)
        return Response(
            json={
                "asked": self.asked,
                "stations": list(self.data["stations"]),
                "same": self.data["stations"] is self.data["app"].stations,
            }
        )
