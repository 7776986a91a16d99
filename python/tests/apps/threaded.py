"""Does with threads, locks and queues of the standard library what applications do."""

import concurrent.futures
import queue
import threading
import time

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls


class Threaded(app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.jobs, self.lock, self.sent = queue.Queue(), threading.RLock(), 0
        self.changed = threading.Condition(self.lock)
        for number in range(3):
            threading.Thread(target=self.work, args=(number,), name=f"worker {number}", daemon=True).start()
        threading.Timer(5, self.logger.info, ("five seconds",)).start()

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, ev):
        self.jobs.put(ev.msg.datapath)
        if ev.msg.match["in_port"] == 2:
            helper = threading.Thread(target=time.sleep, args=(1,))
            helper.start()
            assert helper.is_alive() and threading.active_count() >= 5
            helper.join(0.5)
            assert helper.is_alive()
            helper.join()
            assert not helper.is_alive() and threading.current_thread() is threading.main_thread()
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                self.logger.info("squares %s", list(pool.map(self.square, range(4))))
            with self.changed:
                assert self.changed.wait_for(lambda: self.sent >= 4, timeout=9)
                assert not self.changed.wait(0.5)
            self.logger.info("all sent")

    def square(self, number):
        time.sleep(1)
        return number * number

    def work(self, number):
        assert threading.current_thread().name == f"worker {number}"
        while True:
            datapath = self.jobs.get()
            for _ in range(2):
                time.sleep(0.25)
                with self.lock:
                    time.sleep(0.25)
                    self.sent += 1
                    self.changed.notify_all()
                    datapath.send_barrier()
            self.logger.info("%s has sent", threading.current_thread().name)
