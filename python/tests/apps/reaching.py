"""Reaches out of its process: for a packet from port N by the Nth call of CALLS."""

import multiprocessing
import os
import pty
import resource
import signal
import stat
import subprocess
import tempfile
import threading
from os import kill as kept  # under a name of the application's own, before anybody could replace it

from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls

SWITCH = "/proc/sys/vm/swappiness"
CALLS = {
    "os.kill": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "os.kill, kept": lambda: kept(os.getpid(), signal.SIGTERM),
    "os.killpg": lambda: os.killpg(0, signal.SIGCONT),
    "os._exit": lambda: os._exit(3),
    "os.abort": os.abort,
    "os.exec": lambda: os.execv("/bin/true", ["true"]),
    "os.fork": os.fork,
    "os.posix_spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "os.system": lambda: os.system("true"),
    "subprocess.Popen": lambda: subprocess.run(["true"]),
    "pty.spawn": lambda: pty.spawn("true"),
    "open of /proc/sys/vm/swappiness to write": lambda: open("/proc/sys/vm/swappiness", "w"),
    "open of /dev/port to write": lambda: os.open("/dev/port", os.O_RDWR),
    "open of /dev/fd/200 to write": lambda: open(f"/dev/fd/{os.dup2(os.open(SWITCH, os.O_RDONLY), 200)}", "w"),
    "open of /proc/self/fd/201/swappiness to write": lambda: os.open(
        "swappiness", os.O_WRONLY, dir_fd=os.dup2(os.open(os.path.dirname(SWITCH), os.O_RDONLY), 201)
    ),
    "os.remove of /dev/reaching to change": lambda: os.remove("/dev/reaching"),
    "os.rename of /dev/reaching to change": lambda: os.rename("/tmp", "/dev/reaching"),
    "os.chmod of /proc/self/fd/202/vm to change": lambda: os.chmod(
        "vm", 0o777, dir_fd=os.dup2(os.open("/proc/sys", os.O_RDONLY), 202)
    ),
    "os.chmod of /dev/null to change": lambda: os.chmod("/dev/null", 0o666),
    "os.mkdir of /sys/fs/reaching to change": lambda: os.mkdir("/sys/fs/reaching"),
    "os.mknod": lambda: os.mknod("/tmp/reaching", stat.S_IFBLK, os.makedev(8, 0)),
    "os.setpriority": lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 5),
    "os.sched_setaffinity": lambda: os.sched_setaffinity(os.getppid(), {0}),
    "os.setsid": lambda: os.setsid(),
    "os.setuid": lambda: os.setuid(0),
    "resource.prlimit": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1)),
    "resource.setrlimit": lambda: resource.setrlimit(resource.RLIMIT_CORE, (1, 1)),
    "signal.pthread_kill": lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM),
    "signal.pidfd_send_signal": lambda: signal.pidfd_send_signal(os.pidfd_open(os.getppid()), signal.SIGTERM),
    "signal.raise_signal": lambda: signal.raise_signal(signal.SIGTERM),
    "signal.alarm": lambda: signal.alarm(1),
    "os.fork of multiprocessing": lambda: multiprocessing.get_context("fork").Process(target=print).start(),
    "subprocess.Popen of multiprocessing": lambda: multiprocessing.get_context("spawn").Process(target=print).start(),
}


class Reaching(app_manager.RyuApp):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        signal.signal(signal.SIGHUP, lambda number, _: self.logger.info("reload by %d", number))
        os.kill(os.getpid(), 0)
        with open("/dev/null", "w") as null, tempfile.NamedTemporaryFile() as file:  # these harm nobody
            null.write("harmless")
            file.write(b"harmless")
        with open("/dev/stderr", "w") as errors, tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            errors.write("harmless\n")
            os.mkdir(os.path.join(folder, "harmless"))

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, ev):
        ev.msg.datapath.send_barrier()
        list(CALLS.values())[ev.msg.match["in_port"] - 1]()
        self.logger.info("done")
