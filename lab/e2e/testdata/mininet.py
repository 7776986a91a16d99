"""Runs one network of mininet with a cluster of Holdfast, and prints what happened as JSON.

Usage: python3 trial.py JSON, on the private machine of mininet.sh. JSON is the arguments of Trial, or "mn".
The result is written to result.json, as JSON.
"""

import json
import re
import subprocess
import sys
import time
from functools import partial

from holdfast.mininet import Cluster, HoldfastController
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import OVSSwitch, RemoteController
from mininet.topo import LinearTopo, SingleSwitchTopo, Topo
from mininet.topolib import TorusTopo, TreeTopo

PATIENCE = 300  # seconds: on a busy machine, links must prove for a minute that they work, and 240 pings take as long
INTERVAL = 0.05  # seconds between two pings
PAUSE = 1  # seconds of pings before, between and after kills


class FatTree(Topo):
    """A fat tree of k-port switches: (k/2)² in the core, k pods with k/2 aggregation and k/2 edge switches."""

    def build(self, k):
        half = k // 2
        number = 0

        def switch():
            nonlocal number
            number += 1
            return self.addSwitch(f"s{number}", dpid=f"{number:x}")

        core = [[switch() for _ in range(half)] for _ in range(half)]
        hosts = 0
        for _ in range(k):
            above, below = [switch() for _ in range(half)], [switch() for _ in range(half)]
            for i, aggregation in enumerate(above):
                for c in core[i]:
                    self.addLink(aggregation, c)
                for edge in below:
                    self.addLink(aggregation, edge)
            for edge in below:
                for _ in range(half):
                    hosts += 1
                    self.addLink(self.addHost(f"h{hosts}"), edge)


TOPOLOGIES = {
    "single": SingleSwitchTopo,
    "linear": LinearTopo,
    "tree": TreeTopo,
    "torus": TorusTopo,
    "fattree": FatTree,
}


def eventually(what, ok):
    deadline = time.monotonic() + PATIENCE
    while not ok():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {PATIENCE} s for {what}")
        time.sleep(0.1)


class Pings:
    """Pings from one host to another, until it is stopped."""

    def __init__(self, a, b):
        self.name = f"{a} to {b}"
        self.process = a.popen(["ping", "-n", "-i", str(INTERVAL), b.IP()], stdout=subprocess.PIPE, text=True)

    def stop(self):
        self.process.send_signal(2)
        text, _ = self.process.communicate(timeout=PATIENCE)
        answers = [int(n) for n in re.findall(r"icmp_seq=(\d+) ttl", text)]
        missing = sorted(set(range(1, max(answers, default=1))) - set(answers))
        return {
            "name": self.name,
            "answered": len(set(answers)),
            "lost": missing,
            "repeated": len(answers) - len(set(answers)),
        }


class Trial:
    """One network: build it, ping under faults, stop it."""

    def __init__(self, topology, way, apps, kills, cut):
        self.way, self.apps, self.kills, self.cut = way, apps, kills, cut
        if way == "one":
            # Switches know the address of one controller, which does not lead.
            self.cluster = Cluster(agent=False, apps=apps)
            self.cluster.start()
            self.holdfast("drain", "c1")
            controller = partial(RemoteController, port=self.cluster.ports[0])
        elif way == "each":
            controller = HoldfastController.each(apps=apps)
        else:
            controller = partial(HoldfastController, apps=apps)
        name, *sizes = topology.split(",")
        self.net = Mininet(
            TOPOLOGIES[name](*(int(n) for n in sizes)),
            switch=partial(OVSSwitch, datapath="user"),
            controller=controller,
            listenPort=None,
        )
        if way != "one":
            self.cluster = self.net.controllers[0].cluster

    def run(self):
        self.net.start()
        self.net.waitConnected(PATIENCE)
        eventually("the controllers to be in sync", self.ready)
        if self.apps == "recovery":
            eventually("all hosts to be known", lambda: self.net.pingAll(timeout=1) == 0)
            eventually("a stable plan", self.stable)
        said = {"dropped_before": self.net.pingAll()}
        said["killed"], said["pings"] = self.during(lambda: [self.kill() for _ in range(self.kills)])
        if self.cut:
            said["cut"], said["pings_of_cut"] = self.during(self.cut_link)
            eventually("a plan without the link", self.stable)
        said["dropped_after"] = self.net.pingAll()
        switches = self.leader_status()["switches"]
        said["guarantees"] = sorted({s["guarantee"] for s in switches})
        said["switches"] = len(switches)
        self.net.stop()
        self.cluster.stop()
        return said

    def holdfast(self, command, *args):
        line = [self.cluster.binary, command, "--config", self.cluster.config, *args]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout

    def leader_status(self):
        """What the leader says of itself, as soon as it does: on a busy machine it may not answer in time."""
        leading = {}

        def answers():
            leading.update({int(s["term"]): s for s in self.cluster.status().values() if s["role"] == "leader"})
            return leading

        eventually("the leader to answer", answers)
        return leading[max(leading)]

    def ready(self):
        """Whether each controller that switches connect to could serve all of them."""
        if self.way == "one":
            serving = [self.leader_status()]
        else:
            serving = self.cluster.status().values()
            if len(serving) < len(self.cluster.names):
                return False  # one does not answer
        for status in serving:
            switches = status["switches"] or []  # none is null
            ready = [s for s in switches if s["role"] == "master" or s["role"] == "standby" and s["in_sync"]]
            if len(ready) < len(self.net.switches):
                return False
        return True

    def stable(self):
        try:
            return self.holdfast("paths").splitlines()[0].endswith(", stable")
        except subprocess.CalledProcessError:
            return False  # nobody leads, or the leader does not answer in time

    def during(self, fault):
        """Returns what fault returns, and what became of pings meanwhile."""
        hosts = self.net.hosts
        pings = [Pings(hosts[0], hosts[-1]), Pings(hosts[-1], hosts[len(hosts) // 2])]
        time.sleep(PAUSE)
        result = fault()
        time.sleep(PAUSE)
        return result, [p.stop() for p in pings]

    def kill(self):
        name = self.cluster.kill()
        time.sleep(PAUSE)
        self.cluster.restart(name)
        eventually("the controllers to be in sync", self.ready)
        time.sleep(PAUSE)
        return name

    def cut_link(self):
        """Cuts a link between switches."""
        switches = self.net.switches
        a, b = next(
            (k.intf1.node, k.intf2.node)
            for k in self.net.links
            if k.intf1.node in switches and k.intf2.node in switches
        )
        self.net.configLinkStatus(a.name, b.name, "down")
        return f"{a} to {b}"

    def explain(self):
        for command in ("status", "paths", "links"):
            subprocess.run([self.cluster.binary, command, "--config", self.cluster.config], check=False)


def mn():
    """Runs mn as a user does: with each controller of a cluster in turn, and with all."""
    cluster = Cluster(agent=False)
    cluster.start()
    said = []
    for ports in (*([p] for p in cluster.ports), cluster.ports):
        options = [f"--controller=remote,port={p}" for p in ports]
        line = ["mn", *options, "--switch=ovsk,datapath=user", "--test=pingall"]
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        print(done.stdout, done.stderr)
        said += re.findall(r"Results: .*", done.stdout + done.stderr)
    cluster.stop()
    return said


def main():
    setLogLevel("output")
    options = json.loads(sys.argv[1])
    if options == "mn":
        said = mn()
    else:
        trial = Trial(**options)
        try:
            said = trial.run()
        except Exception:
            trial.explain()
            raise
    with open("result.json", "w") as file:
        json.dump(said, file)


main()
