"""Logs whatever differs between processes, unless somebody sees to it."""

import concurrent.futures
import datetime
import os
import random
import secrets
import socket
import tempfile
import time
import uuid

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls


class Worldly(app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.datapaths = set()
        self.logger.info("threads of a pool %d", concurrent.futures.ThreadPoolExecutor()._max_workers)
        self.logger.info("begun %s", self.world())

    def world(self):
        return [
            time.time(),
            time.time_ns(),
            time.monotonic(),
            time.perf_counter(),
            time.process_time(),
            time.clock_gettime(time.CLOCK_MONOTONIC),
            time.ctime(),
            time.strftime("%Y-%m-%d %H:%M:%S %Z"),
            tuple(time.localtime()),
            time.gmtime().tm_hour,
            datetime.datetime.now(),
            datetime.datetime.utcnow(),
            datetime.date.today(),
            datetime.datetime.now(datetime.timezone.utc),
            random.random(),
            random.Random().random(),
            random.SystemRandom().random(),
            random.sample(range(1000), 5),
            os.urandom(9),
            os.urandom(77),
            secrets.token_hex(),
            uuid.uuid1(),
            uuid.uuid4(),
            os.getpid(),
            socket.gethostname(),
            hash("holdfast"),
            set("holdfast"),
            {b"a", b"b", "c", 1.5, None},
            tempfile.mktemp(),
        ]

    @set_ev_cls(ofp_event.EventOFPStateChange, MAIN_DISPATCHER)
    def up(self, ev):
        self.datapaths.add(ev.datapath)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, ev):
        print(self.world())
        self.logger.info("%s", [datapath.id for datapath in self.datapaths])
        for datapath in self.datapaths:
            datapath.send_msg(datapath.ofproto_parser.OFPEchoReply(datapath, data=os.urandom(4)))
