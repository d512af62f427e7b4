# SPDX-License-Identifier: GPL-2.0
"""Two administrators who do anything to interfaces, devices and namespaces, and users of what is there.

	hostile_admin.py SEED SECONDS

Knows the links w0-w1 and x0-x1, the bond bond9, the VLAN w0.7, devices hx, hy, hz, and namespaces c and d; touches
nothing else. Most commands make sense, as far as an administrator knows what the other has left; some make none.
None may hang, and time goes on until enough of them were carried out. SEED steers the chance; what a command finds
depends on the moment, too. Fails with a line for each fault.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time

DRIVER = os.environ["DRIVER"]
# Each netdev that devices are made of, and what makes it.
NETDEVS = {
    "w0": ("type", "veth", "peer", "name", "w1"),
    "x0": ("type", "veth", "peer", "name", "x1"),
    "bond9": ("type", "bond", "mode", "active-backup", "miimon", "20"),
    "w0.7": ("link", "w0", "type", "vlan", "id", "7"),
}
DEVICES, NAMESPACES = ("hx", "hy", "hz"), ("c", "d")
# So many commands are carried out, if it takes LATEST times as long as was asked for.
ENOUGH, LATEST = 20, 8
# A command hangs after so many seconds.
PATIENCE = 60


class World:
    """What was done so far, which is what administrators go by, and the score."""

    def __init__(self, seconds):
        self.began, self.seconds = time.monotonic(), seconds
        # The namespace of each netdev that was made and not deleted; the first one is "".
        self.place = {}
        self.given = self.kept = 0
        self.hung = []

    def goes_on(self):
        """Whether there is something left to do."""
        passed = time.monotonic() - self.began
        return passed < (LATEST if self.kept < ENOUGH else 1) * self.seconds

    def carry_out(self, words):
        """Runs a command; whether it was carried out."""
        try:
            done = subprocess.run(words, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
        except subprocess.TimeoutExpired:
            self.hung.append(" ".join(words))
            done = False
        self.given, self.kept = self.given + 1, self.kept + done
        return done


class Administrator:
    """Somebody with every right, who uses them by chance."""

    def __init__(self, world, seed):
        self.world, self.chance = world, random.Random(seed)

    def rule(self):
        """Gives orders until it is time."""
        while self.world.goes_on():
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
        return self.world.carry_out([*(("ip", "netns", "exec", where) if where else ()), *words])

    def make(self, netdev):
        """A netdev, up, with addresses."""
        where = self.pick("", "", *NAMESPACES)
        if self.ip(where, "link", "add", netdev, *NETDEVS[netdev]):
            self.world.place[netdev] = where
            self.addresses(netdev, where)
            self.ip(where, "link", "set", netdev, "up")

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
            self.world.place.pop(netdev, None)

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
                self.world.place.pop(netdev, None)

    def device(self, netdev, where):
        """A device over the netdev."""
        self.within(where, "rdma", "link", "add", self.pick(*DEVICES), "type", DRIVER, "netdev", netdev)

    def no_device(self, _netdev, _where):
        """A device goes."""
        self.world.carry_out(["rdma", "link", "del", self.pick(*DEVICES)])

    def rename(self, _netdev, _where):
        """A device gets another name."""
        self.world.carry_out(["rdma", "dev", "set", self.pick(*DEVICES), "name", self.pick(*DEVICES)])

    # What they do, and how often.
    DEEDS = ((device, 6), (no_device, 2), (change, 5), (carrier, 1), (addresses, 3), (strip, 1), (remove, 2),
             (move, 3), (namespace, 2), (wire, 1), (rename, 1))


class User:
    """Programs that use whatever device is there, until their time is up or they are killed."""

    def __init__(self, world, seed):
        self.world, self.chance, self.port = world, random.Random(seed), str(5000 + seed % 1000)

    def work(self):
        """Starts programs until it is time."""
        while self.world.goes_on():
            device = self.chance.choice(DEVICES)
            if not os.path.exists(f"/sys/class/infiniband/{device}"):
                time.sleep(0.1)
                continue
            programs = [self.start(*self.pingpong(device))]
            time.sleep(0.2)
            programs += [self.start(*self.pingpong(device), "127.0.0.1"), self.start(*self.other(device))]
            time.sleep(self.chance.random())
            for program in programs:
                program.send_signal(self.chance.choice((signal.SIGTERM, signal.SIGKILL)))
            for program in programs:
                try:
                    program.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    self.world.hung.append(" ".join(program.args))

    def start(self, *words):
        """A program that says nothing."""
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

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
    seed, seconds = int(sys.argv[1]), int(sys.argv[2])
    world = World(seconds)
    work = [Administrator(world, seed + 1).rule, Administrator(world, seed + 2).rule, User(world, seed + 10).work]
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{world.given} commands, {world.kept} carried out, seed {seed}", file=sys.stderr)
    for line in world.hung:
        print(f"hung: {line}")
    if world.kept < ENOUGH:
        print(f"only {world.kept} of {world.given} commands were carried out")
    return bool(world.hung) or world.kept < ENOUGH


if __name__ == "__main__":
    sys.exit(main())
