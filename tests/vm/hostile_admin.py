# SPDX-License-Identifier: GPL-2.0
"""Two administrators who do anything to interfaces, devices and namespaces, and users of what is there.

	hostile_admin.py SEED SECONDS CONNECTIONS MOVES

Knows the links w0-w1 and x0-x1, the bond bond9, the VLAN w0.7, devices hx, hy, hz, and namespaces c and d; touches
nothing else. Most commands make sense, as far as an administrator knows what the other has left; some make none.
None may hang, and time goes on until enough of them were carried out, settings of the bond and of the VLAN are others
than before, so many CONNECTIONS over these devices have moved data, and devices have made so many MOVES to another
namespace, which they can where each belongs to one; the first one has the name `first`. SEED steers the chance; what a
command finds depends on the moment, too. Fails with a line for each fault.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

DRIVER = os.environ["DRIVER"]
# Each netdev that devices are made of, and what makes it.
NETDEVS = {
    "w0": ("type", "veth", "peer", "name", "w1"),
    "x0": ("type", "veth", "peer", "name", "x1"),
    "bond9": ("type", "bond", "mode", "active-backup", "miimon", "20"),
    "w0.7": ("link", "w0", "type", "vlan", "id", "7"),
}
# What is changed of a bond and of a VLAN while it is there, perhaps in use: each with some values.
SETTINGS = {
    "bond": {
        "mode": ("active-backup", "balance-rr", "balance-xor", "802.3ad", "broadcast"), "miimon": ("0", "20", "100"),
        "active_slave": ("w0", "x0"), "primary": ("w0", "x0"), "updelay": ("0", "40"), "downdelay": ("0", "40"),
        "fail_over_mac": ("none", "active", "follow"), "primary_reselect": ("always", "better", "failure"),
        "xmit_hash_policy": ("layer2", "layer3+4", "vlan+srcmac"), "all_slaves_active": ("0", "1"),
        "num_grat_arp": ("0", "5"), "min_links": ("0", "2"), "arp_interval": ("0", "50"),
    },
    "vlan": {
        "reorder_hdr": ("on", "off"), "loose_binding": ("on", "off"), "gvrp": ("on", "off"), "mvrp": ("on", "off"),
        "bridge_binding": ("on", "off"), "ingress-qos-map": ("0:3", "5:1"), "egress-qos-map": ("0:5", "3:1"),
    },
}
# What a bond changes by itself.
ITS_OWN = {"active_slave", "ad_info"}
DEVICES, NAMESPACES = ("hx", "hy", "hz"), ("c", "d")
# So many commands are carried out, if it takes LATEST times as long as was asked for.
ENOUGH, LATEST = 20, 8
SLOWNESS = int(os.environ.get("SLOWNESS", "1"))
# A command hangs after so many seconds.
PATIENCE = 60 * SLOWNESS


class World:
    """What was done so far, which is what administrators go by, and the score."""

    def __init__(self, seconds, connections, moves):
        self.began, self.seconds = time.monotonic(), seconds
        self.connections, self.moves = connections, moves
        # The namespace of each netdev, and of each device, that was made and not deleted; the first one is "".
        self.place, self.homes = {}, {}
        self.given = self.kept = self.tried = self.moved = self.sent = 0
        # By kind of interface, how often a setting was given a value, and the kernel showed others than before.
        self.retuned = {kind: Counter() for kind in SETTINGS}
        # Whoever holds it has a moment of peace: no administrator begins anything.
        self.peace = threading.Lock()
        self.faults = []

    def enough(self):
        """Whether enough was done to tell something."""
        return self.kept >= ENOUGH and self.moved >= self.connections and self.sent >= self.moves \
            and all(self.retuned.values())

    def goes_on(self):
        """Whether there is something left to do."""
        return time.monotonic() - self.began < (1 if self.enough() else LATEST) * self.seconds

    def gone(self, netdev):
        """A netdev went, and with it a VLAN that lies upon it."""
        for name in (netdev, "w0.7") if netdev == "w0" else (netdev,):
            self.place.pop(name, None)

    def carry_out(self, words):
        """Runs a command; whether it was carried out."""
        try:
            done = subprocess.run(words, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
        except subprocess.TimeoutExpired:
            self.faults.append("hung: " + " ".join(words))
            done = False
        self.given, self.kept = self.given + 1, self.kept + done
        return done


def inside(where):
    """What a command begins with that is carried out in a namespace."""
    return ("ip", "netns", "exec", where) if where else ()


class Administrator:
    """Somebody with every right, who uses them by chance."""

    def __init__(self, world, seed):
        self.world, self.chance = world, random.Random(seed)

    def rule(self):
        """Gives orders until it is time."""
        while self.world.goes_on():
            with self.world.peace:
                pass
            netdev = self.chance.choice(list(NETDEVS))
            where = self.world.place.get(netdev)
            if where is None and self.chance.random() < 0.8:
                self.make(netdev)
            else:
                where = self.pick(where or "", where or "", "", *NAMESPACES)
                self.chance.choices(*zip(*self.DEEDS))[0](self, netdev, where)

    def pick(self, *of):
        """One of them."""
        return self.chance.choice(of)

    def ip(self, where, *words):
        """Runs `ip` in a namespace."""
        return self.world.carry_out(["ip", *(("-n", where) if where else ()), *words])

    def within(self, where, *words):
        """Runs another program there."""
        return self.world.carry_out([*inside(where), *words])

    def make(self, netdev):
        """A netdev, up, with addresses."""
        where = self.pick("", "", *NAMESPACES)
        if "vlan" in NETDEVS[netdev] and self.chance.random() < 0.8:
            where = self.world.place.get("w0", where)
        if self.ip(where, "link", "add", netdev, *NETDEVS[netdev]):
            self.world.place[netdev] = where
            self.addresses(netdev, where)
            self.ip(where, "link", "set", netdev, "up")
            if "veth" in NETDEVS[netdev] and self.chance.random() < 0.8:
                # Without it there is no carrier, and nobody can use a device.
                self.ip(where, "link", "set", NETDEVS[netdev][-1], "up")

    def addresses(self, netdev, where):
        """An address of either version."""
        number = self.chance.randrange(4)
        self.ip(where, "addr", "add", f"10.9.{number}.1/24", "dev", netdev)
        self.ip(where, "addr", "add", f"fd09::{number}:1/64", "dev", netdev, "nodad")

    def strip(self, netdev, where):
        """Addresses go."""
        number = self.chance.randrange(4)
        self.ip(where, "addr", *self.pick(("del", f"10.9.{number}.1/24"), ("flush",)), "dev", netdev)

    def remove(self, netdev, where):
        """A netdev goes, with what lies above it."""
        if self.ip(where, "link", "del", netdev):
            self.world.gone(netdev)

    def move(self, netdev, where):
        """A netdev goes into another namespace."""
        target = self.pick("", *NAMESPACES)
        if self.ip(where, "link", "set", netdev, "netns", target or "1"):
            self.world.place[netdev] = target

    def change(self, netdev, where):
        """MTU, link, address of a netdev, or its place in the bond."""
        self.ip(where, "link", "set", netdev, *self.pick(
            ("mtu", self.pick("200", "256", "600", "1280", "1500", "4200", "9000")), ("up",), ("up",), ("down",),
            ("address", f"02:00:00:00:09:0{self.chance.randrange(10)}"), ("master", "bond9"), ("nomaster",)))

    def retune(self, _netdev, _where):
        """A setting of the bond or the VLAN, some of them by sysfs as well, or the MTU of what it lies upon."""
        # What is there, as a rule: on a slow machine there are few commands, and something of both is to be changed.
        tunable = ("bond9", "w0.7")
        there = [name for name in tunable if name in self.world.place and self.chance.random() < 0.9]
        netdev = self.pick(*there or tunable)
        kind = NETDEVS[netdev][NETDEVS[netdev].index("type") + 1]
        where = self.world.place.get(netdev, "")
        name = self.pick(*SETTINGS[kind])
        value = self.pick(*SETTINGS[kind][name])
        before = self.settings(netdev, where)
        if self.chance.random() < 0.2:
            self.ip(where, "link", "set", self.pick("w0", "x0"), "mtu", self.pick("600", "1500", "4200"))
        if kind == "bond" and self.chance.random() < 0.5:
            # Some can be changed of a bond only that is down, or has no slaves.
            if self.chance.random() < 0.3:
                self.ip(where, "link", "set", netdev, self.pick("down", "up"))
            done = self.within(where, "sh", "-c", f"echo {value} >/sys/class/net/{netdev}/bonding/{name}")
        else:
            done = self.ip(where, "link", "set", netdev, "type", kind, name, value)
        if done and before and self.settings(netdev, where) not in (None, before):
            self.world.retuned[kind][name] += 1

    def settings(self, netdev, where):
        """How a bond or VLAN is set now; None if it is not there."""
        words = ["ip", *(("-n", where) if where else ()), "-j", "-d", "link", "show", netdev]
        found = subprocess.run(words, check=False, stdin=subprocess.DEVNULL, capture_output=True)
        if found.returncode:
            return None
        held = json.loads(found.stdout)[0].get("linkinfo", {}).get("info_data", {})
        return {name: value for name, value in held.items() if name not in ITS_OWN}

    def carrier(self, _netdev, where):
        """The other end of a link."""
        self.ip(where, "link", "set", self.pick("w1", "x1"), self.pick("up", "down"))

    def wire(self, netdev, where):
        """A queue that loses packets comes and goes."""
        self.within(where, "tc", "qdisc", *self.pick(("replace", "dev", netdev, "root", "netem", "loss", "5%"),
                                                     ("del", "dev", netdev, "root")))

    def namespace(self, _netdev, _where):
        """A namespace comes, or goes with what is in it."""
        name = self.pick(*NAMESPACES)
        if self.world.carry_out(["ip", "netns", self.pick("add", "add", "del"), name]):
            for netdev in [netdev for netdev, where in list(self.world.place.items()) if where == name]:
                self.world.gone(netdev)
            # For whoever connects there by TCP.
            self.ip(name, "link", "set", "lo", "up")

    def device(self, netdev, where):
        """A device over the netdev."""
        name = self.pick(*DEVICES)
        if self.within(where, "rdma", "link", "add", name, "type", DRIVER, "netdev", netdev):
            self.world.homes[name] = where

    def some_device(self):
        """A device, and where it is, as far as somebody knows."""
        name = self.pick(*DEVICES)
        return name, self.world.homes.get(name, "")

    def no_device(self, _netdev, _where):
        """A device goes."""
        name, home = self.some_device()
        if self.within(home, "rdma", "link", "del", name):
            self.world.homes.pop(name, None)

    def rename(self, _netdev, _where):
        """A device gets another name."""
        (name, home), new = self.some_device(), self.pick(*DEVICES)
        if self.within(home, "rdma", "dev", "set", name, "name", new):
            self.world.homes.pop(name, None)
            self.world.homes[new] = home

    def send(self, _netdev, _where):
        """A device goes into another namespace, which it only can if it is in no other."""
        (name, home), target = self.some_device(), self.pick("", *NAMESPACES)
        if self.within(home, "rdma", "dev", "set", name, "netns", target or "first"):
            self.world.homes[name] = target
            self.world.sent += target != home

    def tear(self, netdev, where):
        """The same, while a netdev goes."""
        other = threading.Thread(target=self.remove, args=(netdev, where))
        other.start()
        self.send(netdev, where)
        other.join()

    # What they do, and how often.
    DEEDS = ((device, 12), (no_device, 2), (change, 5), (retune, 4), (carrier, 1), (addresses, 3), (strip, 1),
             (remove, 2), (move, 3), (namespace, 2), (wire, 1), (rename, 1), (send, 2), (tear, 1))


class User:
    """Programs that use whatever device is there, until their time is up or they are killed."""

    def __init__(self, world, seed):
        self.world, self.chance, self.port = world, random.Random(seed), str(5000 + seed % 1000)

    def work(self):
        """Starts programs until it is time."""
        while self.world.goes_on():
            known = list(self.world.homes.items())
            device, home = self.chance.choice(known or [("", "")])
            kind = self.chance.random()
            if not known:
                time.sleep(0.1)
            elif kind < 0.15:
                with self.world.peace:
                    # Some of these are addresses.
                    any(self.whole(device, home, index) for index in range(4) if self.is_there(device, home))
            elif not self.is_there(device, home):
                continue
            elif kind < 0.5:
                self.whole(device, home, self.chance.randrange(4))
            else:
                self.torn(device, home)

    def is_there(self, device, home):
        """Whether there still is such a device; else it is forgotten."""
        words = [*inside(home), "test", "-e", f"/sys/class/infiniband/{device}"]
        found = subprocess.run(words, check=False, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
        if not found and self.world.homes.get(device) == home:
            self.world.homes.pop(device, None)
        return found

    def whole(self, device, home, index):
        """A connection that its user leaves in peace; whether it worked."""
        words = "ibv_rc_pingpong", "-d", device, "-g", str(index), "-p", self.port, "-n", "50"
        server = self.start(home, *words)
        # It never does where we look if the namespace has gone meanwhile, and another has its name.
        late = time.monotonic() + 5 * SLOWNESS
        while server.poll() is None and not self.listens(home) and time.monotonic() < late:
            time.sleep(0.02)
        code = server.poll()
        if code is None:
            code = self.end_of(self.start(home, *words, "127.0.0.1"), 5 * SLOWNESS)
            # The server of a client that has failed may wait for ever.
            code = self.end_of(server, 5 * SLOWNESS if code == 0 else 0) or code
        self.world.tried += 1
        self.world.moved += code == 0
        return code == 0

    def listens(self, home):
        """Whether somebody listens on the port there."""
        words = [*inside(home), "ss", "-Hltn", f"sport = :{self.port}"]
        return bool(subprocess.run(words, check=False, stdin=subprocess.DEVNULL, capture_output=True).stdout)

    def torn(self, device, home):
        """Some programs that are ended in the middle of their work."""
        programs = [self.start(home, *self.pingpong(device))]
        time.sleep(0.2)
        programs += [self.start(home, *self.pingpong(device), "127.0.0.1"), self.start(home, *self.other(device))]
        time.sleep(self.chance.random())
        for program in programs:
            program.send_signal(self.chance.choice((signal.SIGTERM, signal.SIGKILL)))
        for program in programs:
            self.end_of(program, PATIENCE)

    def end_of(self, program, seconds):
        """The exit code of a program, which is killed if it takes longer."""
        for patience in (seconds, PATIENCE):
            try:
                return program.wait(patience)
            except subprocess.TimeoutExpired:
                program.kill()
        self.world.faults.append("hung: " + " ".join(program.args))
        return None

    def start(self, home, *words):
        """A program that says nothing."""
        return subprocess.Popen([*inside(home), *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def pingpong(self, device):
        """One end of a connection that goes on till it is killed."""
        return ("ibv_rc_pingpong", "-d", device, "-g", str(self.chance.randrange(4)), "-p", self.port, "-e",
                "-n", "1000000")

    def other(self, device):
        """Something else that looks at the device, or listens on it."""
        return self.chance.choice((
            ("rping", "-s", "-a", f"10.9.{self.chance.randrange(4)}.1", "-p", self.port),
            ("ibv_devinfo", "-v", "-d", device), ("rdma", "resource", "show", "qp"),
            ("ibv_ud_pingpong", "-d", device, "-g", "1", "-p", str(int(self.port) + 1000))))


def main():
    """Two administrators and a user, until it is time."""
    seed, *limits = (int(word) for word in sys.argv[1:])
    world = World(*limits)
    work = [Administrator(world, seed + 1).rule, Administrator(world, seed + 2).rule, User(world, seed + 10).work]
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    changes = ", ".join(f"{kind}: {dict(found)}" for kind, found in world.retuned.items())
    print(f"{world.given} commands, {world.kept} carried out, {world.sent} devices went to another namespace, "
          f"{world.moved} of {world.tried} connections moved data, changed {changes}, seed {seed}", file=sys.stderr)
    for line in world.faults:
        print(line)
    if not world.enough():
        print(f"only {world.kept} commands were carried out, {world.moved} connections moved data, {world.sent} moves, "
              f"changed {changes}")
    return bool(world.faults) or not world.enough()


if __name__ == "__main__":
    sys.exit(main())
