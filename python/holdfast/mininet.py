"""A cluster of Holdfast controllers as the controller of a mininet network.

    from holdfast.mininet import HoldfastController
    net = Mininet(topo, controller=HoldfastController)         # three controllers and an agent

    mn --custom python/holdfast/mininet.py --controller=holdfast,apps=recovery --topo torus,3,3

The network starts the cluster's processes, and stops them when it stops. They do not outlive the Python process. This
module does not configure switches. It needs the program `holdfast`, and mininet 2.3.
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request
from functools import partial
from typing import Any

from mininet.node import Controller

ADDRESS = "127.0.0.1"
LAST_PORT = 6653  # the port of OpenFlow, and the first at which mininet's RemoteController looks
START_SECONDS = 30  # how long processes may take to start, and then to elect a leader
STOP_SECONDS = 5  # how long a process may take to end, before it is killed
POLL_SECONDS = 0.05

_prctl = ctypes.CDLL(None).prctl


def _die_with_parent() -> None:
    """Make the kernel kill this process when the thread that started it ends. Mininet may be killed at any time."""
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG of linux/prctl.h
    _prctl(set_parent_death_signal, signal.SIGKILL)


class Cluster:
    """The processes of one cluster on this machine: controllers c1, c2 and so on, and an agent for all switches.

    controllers: their number, odd
    apps: the applications: a list, or text with "+" between the names
    agent: whether switches connect to an agent, at `port`. Otherwise they connect to the controllers, at `ports`
    last: the OpenFlow port of the last controller. The ports below it are those of the others, and of the agent.
        The API has ports 2000 higher, connections between controllers have ports 350 higher
    settings: more lines of the configuration file
    binary: the program `holdfast`; otherwise $HOLDFAST, or the one in PATH
    """

    def __init__(
        self,
        controllers: int = 3,
        apps: str | list[str] = "learning",
        agent: bool = True,
        last: int = LAST_PORT,
        settings: str = "",
        binary: str = "",
    ) -> None:
        self.names = [f"c{i + 1}" for i in range(controllers)]
        self.ports = [last - controllers + 1 + i for i in range(controllers)]
        self.agent = bool(agent)
        self.port = self.ports[0] - 1 if self.agent else self.ports[0]
        self.apps = apps.split("+") if isinstance(apps, str) else list(apps)
        self.settings = settings
        self.binary = _program(binary or os.environ.get("HOLDFAST", "holdfast"))
        self.dir = ""  # with the configuration, the data and the logs, while the cluster runs
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def config(self) -> str:
        """The configuration file, for commands such as `holdfast status`."""
        return os.path.join(self.dir, "holdfast.yaml")

    def start(self) -> None:
        """Start the processes, and wait until a controller leads."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("start the cluster in the main thread: its processes end with the thread that starts it")
        self.dir = tempfile.mkdtemp(prefix="holdfast-mininet-")
        try:
            with open(self.config, "w", encoding="utf-8") as file:
                file.write(self._configuration())
            for name in self.names:
                self._run("init", "--config", self.config, "--name", name)
            for name in self.names:
                self.restart(name)
            if self.agent:
                self._spawn("agent", "agent", "--config", self.config, "--listen", f"{ADDRESS}:{self.port}")
            self.leader()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the processes and remove their files. It may be called again."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes = {}
        if self.dir:
            shutil.rmtree(self.dir, ignore_errors=True)
            self.dir = ""

    def leader(self) -> str:
        """Return the name of the leader. Wait for an election if there is none."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            for name in ("agent", *self.names):
                process = self._processes.get(name)
                if process and process.poll() not in (None, -signal.SIGKILL):
                    raise RuntimeError(f"holdfast: {name} has ended:\n{self._log(name)}")
            leading = [(int(status["term"]), name) for name, status in self.status().items()
                       if status["role"] == "leader"]
            if leading:
                return max(leading)[1]
            time.sleep(POLL_SECONDS)
        logs = "\n".join(f"--- {name}\n{self._log(name)}" for name in self.names)
        raise RuntimeError(f"holdfast: no controller leads after {START_SECONDS} s:\n{logs}")

    def status(self) -> dict[str, Any]:
        """Return what each controller that answers says of itself (`GetController` of the API)."""
        answers = {}
        for name, port in zip(self.names, self.ports, strict=True):
            if name in self._processes and self._processes[name].poll() is None:
                try:
                    method = f"http://{ADDRESS}:{port + 2000}/holdfast.v1.Cluster/GetController"
                    request = urllib.request.Request(method, b"{}", {"Content-Type": "application/json"})
                    with _opener.open(request, timeout=1) as answer:
                        answers[name] = json.load(answer)
                except OSError:
                    pass  # it starts, or it was killed meanwhile
        return answers

    def kill(self, name: str = "") -> str:
        """Kill a controller with SIGKILL, and return its name. Without a name, kill the leader."""
        name = name or self.leader()
        self._processes[name].kill()
        self._processes[name].wait()
        return name

    def restart(self, name: str) -> None:
        """Start a controller again after kill."""
        self._spawn(name, "serve", "--config", self.config, "--name", name)

    def _configuration(self) -> str:
        lines = ["controllers:"]
        for name, port in zip(self.names, self.ports, strict=True):
            of, api, peer = (f"'{ADDRESS}:{p}'" for p in (port, port + 2000, port + 350))
            lines.append(f"  - {{name: {name}, openflow: {of}, api: {api}, peer: {peer}}}")
        lines += [f"apps: {json.dumps(self.apps)}", "durability: memory", f"data: {os.path.join(self.dir, 'data')}"]
        if "bfd:" not in self.settings:
            # All switches of a mininet are bridges of one Open vSwitch, which is on this machine.
            run = os.environ.get("OVS_RUNDIR", "/var/run/openvswitch")
            lines.append(f"bfd: {{database: 'unix:{run}/db.sock'}}")
        return "\n".join([*lines, self.settings, ""])

    def _spawn(self, name: str, *args: str) -> None:
        # A session of its own: Ctrl-C in mininet's command line must not end the controllers.
        with open(os.path.join(self.dir, name + ".log"), "ab") as log:
            self._processes[name] = subprocess.Popen(
                [self.binary, *args],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    def _run(self, *args: str) -> None:
        done = subprocess.run(
            [self.binary, *args], capture_output=True, text=True, timeout=START_SECONDS, check=False
        )
        if done.returncode:
            raise RuntimeError(f"holdfast {args[0]}: {done.stderr.strip()}")

    def _log(self, name: str) -> str:
        try:
            with open(os.path.join(self.dir, name + ".log"), encoding="utf-8", errors="replace") as file:
                return "".join(file.readlines()[-10:]).rstrip()
        except OSError as error:
            return str(error)


_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # http_proxy is for other machines


def _program(name: str) -> str:
    path = shutil.which(name)
    if not path:
        raise FileNotFoundError(
            f"there is no program {name}: build it (make build), and say where it is: "
            "binary=PATH, the environment variable HOLDFAST, or PATH (which sudo changes)"
        )
    return os.path.abspath(path)


class HoldfastController(Controller):  # type: ignore[misc]
    """A controller of mininet that is a whole cluster of Holdfast. The options are those of Cluster."""

    def __init__(
        self,
        name: str,
        controllers: int = 3,
        apps: str | list[str] = "learning",
        agent: bool = True,
        last: int = LAST_PORT,
        settings: str = "",
        binary: str = "",
        **params: Any,
    ) -> None:
        self.cluster = Cluster(controllers, apps, agent, last, settings, binary)
        Controller.__init__(self, name, ip=ADDRESS, port=self.cluster.port, **params)

    @classmethod
    def each(cls, controllers: int = 3, last: int = LAST_PORT, **options: Any) -> list[Any]:
        """Return what makes switches connect to each controller of a cluster, without an agent.

        net = Mininet(topo, controller=HoldfastController.each())
        """
        first = partial(cls, controllers=controllers, agent=False, last=last, **options)
        return [first] + [partial(Member, port=last - controllers + 1 + i) for i in range(1, controllers)]

    def start(self) -> None:
        self.cluster.start()

    def stop(self, *args: Any, **kwargs: Any) -> None:
        self.cluster.stop()
        super(Controller, self).stop(*args, **kwargs)  # Controller's own kills what a shell has started

    def leader(self) -> str:
        """Return the name of the leader."""
        return self.cluster.leader()

    def kill(self, name: str = "") -> str:
        """Kill a controller with SIGKILL, and return its name. Without a name, kill the leader."""
        return self.cluster.kill(name)

    def restart(self, name: str) -> None:
        """Start a controller again after kill."""
        self.cluster.restart(name)


class Member(Controller):  # type: ignore[misc]
    """One more address of a cluster that a HoldfastController starts."""

    def checkListening(self) -> None:
        """Do nothing: the cluster starts with the network."""

    def start(self) -> None:
        """Do nothing."""

    def stop(self, *args: Any, **kwargs: Any) -> None:
        super(Controller, self).stop(*args, **kwargs)


controllers = {"holdfast": HoldfastController}  # for mn --custom
