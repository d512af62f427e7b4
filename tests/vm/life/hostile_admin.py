# SPDX-License-Identifier: GPL-2.0
"""Two administrators that change interfaces, devices and namespaces at random, and users of the devices.

	hostile_admin.py SEED SECONDS CONNECTIONS MOVES

Uses only the links w0-w1 and x0-x1, the bond bond9, the VLAN w0.7, devices hx, hy, hz, and namespaces c and d. Most
commands make sense, as far as an administrator can track the changes of the other; some make none. No command may hang.
The test continues until enough commands have succeeded, settings of the bond and the VLAN have changed, CONNECTIONS
connections over these devices have moved data, and devices have made MOVES moves to another namespace. Moves are
possible where each device belongs to one namespace; the first one is called `first`. SEED seeds the random choices; the
state that a command finds also depends on timing. The test prints a line for each fault.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import nldev
from netns import within_namespace

DRIVER = os.environ["DRIVER"]
# Programs can use the devices of the first type only, so most devices are of it.
TYPES = (DRIVER, DRIVER, DRIVER, "ferroce_direct" if DRIVER == "ferroce" else DRIVER)
# Each netdev that carries devices, and the arguments that create it.
NETDEVS = {
    "w0": ("type", "veth", "peer", "name", "w1"),
    "x0": ("type", "veth", "peer", "name", "x1"),
    "bond9": ("type", "bond", "mode", "active-backup", "miimon", "20"),
    "w0.7": ("link", "w0", "type", "vlan", "id", "7"),
}
# Settings of a bond and of a VLAN that are changed while it exists, perhaps in use, with some values for each.
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
# Settings that a bond changes by itself.
ITS_OWN = {"active_slave", "ad_info"}
DEVICES, NAMESPACES = ("hx", "hy", "hz"), ("c", "d")
# A state in the kernel's list of connections.
LISTEN = "0A"
# Minimum of successful commands, and the limit of the duration as a multiple of the requested one.
ENOUGH, LATEST = 20, 16
SLOWNESS = int(os.environ.get("SLOWNESS", "1"))
# Seconds after which a command counts as hung.
PATIENCE = 60 * SLOWNESS
# Seconds after which a connection counts as failed, if its programs have not ended. Meanwhile there may be peace.
CONNECTING = 3 * SLOWNESS


class World:
    """The state that the administrators track, and the score."""

    def __init__(self, seconds, connections, moves):
        self.began, self.seconds = time.monotonic(), seconds
        self.connections, self.moves = connections, moves
        # The namespace of each netdev and of each device that exists; the first one is "".
        self.place, self.homes = {}, {}
        self.given = self.kept = self.tried = self.moved = self.sent = 0
        # By kind of interface: how often a command changed a setting and the kernel showed other values than before.
        self.retuned = {kind: Counter() for kind in SETTINGS}
        # While a thread holds this, no administrator starts a command.
        self.peace = threading.Lock()
        self.faults = []

    def enough(self):
        """Returns whether enough has happened for a result."""
        return self.kept >= ENOUGH and self.moved >= self.connections and self.sent >= self.moves \
            and all(self.retuned.values())

    def lacks_connections(self):
        """Returns whether the time is over, but for a connection that works."""
        return self.moved < self.connections and time.monotonic() - self.began > self.seconds

    def goes_on(self):
        """Returns whether the test continues."""
        return time.monotonic() - self.began < (1 if self.enough() else LATEST) * self.seconds

    def gone(self, netdev):
        """Records that a netdev was deleted, and with w0 the VLAN on it."""
        for name in (netdev, "w0.7") if netdev == "w0" else (netdev,):
            self.place.pop(name, None)

    def carry_out(self, words, where=""):
        """Runs a command in a namespace; returns whether it succeeded."""
        done = False
        try:
            with at(where):
                done = subprocess.run(words, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
        except subprocess.TimeoutExpired:
            self.faults.append("hung: " + " ".join(words))
        except OSError:
            pass  # The namespace does not exist.
        self.given, self.kept = self.given + 1, self.kept + done
        return done

    def carry_out_all(self, commands, where):
        """Runs commands of `ip`, one after the other, whether they succeed or not; one process does so."""
        failed = len(commands)
        try:
            with at(where):
                told = subprocess.run(["ip", "-force", "-batch", "-"], timeout=PATIENCE, check=False, text=True,
                                      input="\n".join(commands) + "\n", capture_output=True).stderr
            failed = told.count("Command failed")
        except subprocess.TimeoutExpired:
            self.faults.append("hung: " + "; ".join(commands))
        except OSError:
            pass  # The namespace does not exist.
        self.given, self.kept = self.given + len(commands), self.kept + len(commands) - failed


def at(where):
    """A context in which this thread is in a namespace, and what it starts. `ip netns exec` is one more process, which
    mounts sysfs for it: programs need that if they look for devices or interfaces there.
    """
    return within_namespace(where) if where else contextlib.nullcontext()


def inside(where):
    """Prefix of a command that runs in a namespace, with its sysfs."""
    return ("ip", "netns", "exec", where) if where else ()


class Administrator:
    """An administrator with all rights that issues random commands."""

    def __init__(self, world, seed):
        self.world, self.chance = world, random.Random(seed)

    def rule(self):
        """Issues commands until the test ends."""
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
        """One of the arguments."""
        return self.chance.choice(of)

    def ip(self, where, *words):
        """Runs `ip` in a namespace."""
        return self.world.carry_out(["ip", *words], where)

    def within(self, where, *words):
        """Runs another program in a namespace."""
        return self.world.carry_out(words, where)

    def make(self, netdev):
        """Creates a netdev, up, with addresses."""
        where = self.pick("", "", *NAMESPACES)
        if "vlan" in NETDEVS[netdev] and self.chance.random() < 0.8:
            where = self.world.place.get("w0", where)
        if self.ip(where, "link", "add", netdev, *NETDEVS[netdev]):
            self.world.place[netdev] = where
            up = [f"link set {netdev} up"]
            if "veth" in NETDEVS[netdev] and self.chance.random() < 0.8:
                # Without it there is no carrier, and devices are unusable.
                up.append(f"link set {NETDEVS[netdev][-1]} up")
            self.addresses(netdev, where, up)

    def addresses(self, netdev, where, more=()):
        """Adds an address of each IP version, and runs more commands."""
        number = self.chance.randrange(4)
        self.world.carry_out_all([f"addr add 10.9.{number}.1/24 dev {netdev}",
                                  f"addr add fd09::{number}:1/64 dev {netdev} nodad", *more], where)

    def strip(self, netdev, where):
        """Removes addresses."""
        number = self.chance.randrange(4)
        self.ip(where, "addr", *self.pick(("del", f"10.9.{number}.1/24"), ("flush",)), "dev", netdev)

    def remove(self, netdev, where):
        """Deletes a netdev, with everything stacked on it."""
        if self.ip(where, "link", "del", netdev):
            self.world.gone(netdev)

    def move(self, netdev, where):
        """Moves a netdev to another namespace."""
        target = self.pick("", *NAMESPACES)
        if self.ip(where, "link", "set", netdev, "netns", target or "1"):
            self.world.place[netdev] = target

    def change(self, netdev, where):
        """Changes the MTU, the state or the address of a netdev, or its membership in the bond."""
        self.ip(where, "link", "set", netdev, *self.pick(
            ("mtu", self.pick("200", "256", "600", "1280", "1500", "4200", "9000")), ("up",), ("up",), ("down",),
            ("address", f"02:00:00:00:09:0{self.chance.randrange(10)}"), ("master", "bond9"), ("nomaster",)))

    def retune(self, _netdev, _where):
        """Changes a setting of the bond or the VLAN, sometimes through sysfs, or the MTU of a lower netdev."""
        # Usually an existing netdev: on a slow machine there are few commands, and settings of both kinds must change.
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
            # Some settings can only change while the bond is down or has no slaves.
            if self.chance.random() < 0.3:
                self.ip(where, "link", "set", netdev, self.pick("down", "up"))
            file = f"/sys/class/net/{netdev}/bonding/{name}"
            done = self.world.carry_out([*inside(where), "sh", "-c", f"echo {value} >{file}"])
        else:
            done = self.ip(where, "link", "set", netdev, "type", kind, name, value)
        if done and before and self.settings(netdev, where) not in (None, before):
            self.world.retuned[kind][name] += 1

    def settings(self, netdev, where):
        """The current settings of a bond or VLAN; None if it does not exist."""
        try:
            with at(where):
                found = subprocess.run(["ip", "-j", "-d", "link", "show", netdev], check=False,
                                       stdin=subprocess.DEVNULL, capture_output=True)
        except OSError:
            return None
        if found.returncode:
            return None
        held = json.loads(found.stdout)[0].get("linkinfo", {}).get("info_data", {})
        return {name: value for name, value in held.items() if name not in ITS_OWN}

    def carrier(self, _netdev, where):
        """Changes the carrier of a link."""
        self.ip(where, "link", "set", self.pick("w1", "x1"), self.pick("up", "down"))

    def wire(self, netdev, where):
        """Adds or removes a queue that drops packets."""
        self.within(where, "tc", "qdisc", *self.pick(("replace", "dev", netdev, "root", "netem", "loss", "5%"),
                                                     ("del", "dev", netdev, "root")))

    def namespace(self, _netdev, _where):
        """Creates a namespace, or deletes it with its contents."""
        name = self.pick(*NAMESPACES)
        if self.world.carry_out(["ip", "netns", self.pick("add", "add", "del"), name]):
            for netdev in [netdev for netdev, where in list(self.world.place.items()) if where == name]:
                self.world.gone(netdev)
            # For TCP connections inside the namespace.
            self.ip(name, "link", "set", "lo", "up")

    def device(self, netdev, where):
        """Adds a device over the netdev."""
        name = self.pick(*DEVICES)
        if self.within(where, "rdma", "link", "add", name, "type", self.pick(*TYPES), "netdev", netdev):
            self.world.homes[name] = where

    def some_device(self):
        """A device and its namespace, as far as known."""
        name = self.pick(*DEVICES)
        return name, self.world.homes.get(name, "")

    def no_device(self, _netdev, _where):
        """Deletes a device."""
        name, home = self.some_device()
        if self.within(home, "rdma", "link", "del", name):
            self.world.homes.pop(name, None)

    def rename(self, _netdev, _where):
        """Renames a device."""
        (name, home), new = self.some_device(), self.pick(*DEVICES)
        if self.within(home, "rdma", "dev", "set", name, "name", new):
            self.world.homes.pop(name, None)
            self.world.homes[new] = home

    def send(self, _netdev, _where):
        """Moves a device to another namespace; this only works where each device belongs to one namespace."""
        (name, home), target = self.some_device(), self.pick("", *NAMESPACES)
        if self.within(home, "rdma", "dev", "set", name, "netns", target or "first"):
            self.world.homes[name] = target
            self.world.sent += target != home

    def tear(self, netdev, where):
        """Moves a device while a netdev is deleted."""
        other = threading.Thread(target=self.remove, args=(netdev, where))
        other.start()
        self.send(netdev, where)
        other.join()

    # The actions of an administrator, with weights.
    DEEDS = ((device, 12), (no_device, 2), (change, 5), (retune, 4), (carrier, 1), (addresses, 3), (strip, 1),
             (remove, 2), (move, 3), (namespace, 2), (wire, 1), (rename, 1), (send, 2), (tear, 1))


class User:
    """Programs that use any existing device until they end or are killed."""

    def __init__(self, world, seed):
        self.world, self.chance, self.port = world, random.Random(seed), str(5000 + seed % 1000)

    def work(self):
        """Starts programs until the test ends."""
        while self.world.goes_on():
            known = list(self.world.homes.items())
            device, home = self.chance.choice(known or [("", "")])
            kind = self.chance.random()
            if not known:
                time.sleep(0.1)
            elif kind < 0.15 or self.world.lacks_connections():
                with self.world.peace:
                    if self.world.lacks_connections():
                        self.mend()
                    # Some of these GIDs are addresses.
                    any(self.whole(device, home, index) for index in range(4) if self.is_there(device, home))
            elif not self.is_there(device, home):
                continue
            elif kind < 0.5:
                self.whole(device, home, self.chance.randrange(4))
            else:
                self.torn(device, home)

    def mend(self):
        """Brings interfaces into a state in which devices over them must work: by chance that may take minutes."""
        for where in ("", *NAMESPACES):
            self.world.carry_out_all([*(f"link set {netdev} mtu 1500 up" for netdev in ("w0", "x0", "w1", "x1", "lo")),
                                      "addr add 10.9.0.1/24 dev w0", "addr add 10.9.1.1/24 dev x0"], where)
        # The core adds GIDs later.
        time.sleep(0.2 * SLOWNESS)

    def is_there(self, device, home):
        """Returns whether the device still exists; otherwise forgets it."""
        try:
            with at(home):
                found = device in nldev.names()
        except OSError:
            found = False
        if not found and self.world.homes.get(device) == home:
            self.world.homes.pop(device, None)
        return found

    def whole(self, device, home, index):
        """Runs a connection without a kill; returns whether it worked."""
        words = "ibv_rc_pingpong", "-d", device, "-g", str(index), "-p", self.port, "-n", "50"
        server = self.start(home, *words)
        # The server never listens here if the namespace was deleted meanwhile and another has its name.
        late = time.monotonic() + CONNECTING
        while server.poll() is None and not self.listens(home) and time.monotonic() < late:
            time.sleep(0.02)
        code = server.poll()
        if code is None:
            code = self.end_of(self.start(home, *words, "127.0.0.1"), CONNECTING)
            # The server of a failed client may wait forever.
            code = self.end_of(server, CONNECTING if code == 0 else 0) or code
        self.world.tried += 1
        self.world.moved += code == 0
        return code == 0

    def listens(self, home):
        """Returns whether a server listens on the port in that namespace."""
        try:
            with at(home):
                lines = [line.split() for name in ("tcp", "tcp6")
                         for line in Path("/proc/thread-self/net", name).read_text(encoding="ascii").splitlines()[1:]]
        except OSError:
            return False
        return any(words[1].endswith(f":{int(self.port):04X}") and words[3] == LISTEN for words in lines)

    def torn(self, device, home):
        """Runs programs that are killed while they work."""
        programs = [self.start(home, *self.pingpong(device))]
        time.sleep(0.2)
        programs += [self.start(home, *self.pingpong(device), "127.0.0.1"), self.start(home, *self.other(device))]
        time.sleep(self.chance.random())
        for program in programs:
            program.send_signal(self.chance.choice((signal.SIGTERM, signal.SIGKILL)))
        for program in programs:
            self.end_of(program, PATIENCE)

    def end_of(self, program, seconds):
        """The exit code of a program, which is killed after a timeout."""
        for patience in (seconds, PATIENCE):
            try:
                return program.wait(patience)
            except subprocess.TimeoutExpired:
                program.kill()
        self.world.faults.append("hung: " + " ".join(program.args))
        return None

    def start(self, home, *words):
        """Starts a program without output."""
        return subprocess.Popen([*inside(home), *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def pingpong(self, device):
        """One end of a connection that runs until it is killed."""
        return ("ibv_rc_pingpong", "-d", device, "-g", str(self.chance.randrange(4)), "-p", self.port, "-e",
                "-n", "1000000")

    def other(self, device):
        """Another program that reads the device's state or listens on it."""
        return self.chance.choice((
            ("rping", "-s", "-a", f"10.9.{self.chance.randrange(4)}.1", "-p", self.port),
            ("ibv_devinfo", "-v", "-d", device), ("rdma", "resource", "show", "qp"),
            ("ibv_ud_pingpong", "-d", device, "-g", "1", "-p", str(int(self.port) + 1000))))


def main():
    """Runs two administrators and a user until the test ends."""
    seed, *limits = (int(word) for word in sys.argv[1:])
    world = World(*limits)
    # A thread that ends early must not pass for one that found nothing.
    threading.excepthook = lambda failed: world.faults.append(f"{failed.thread.name} ended: {failed.exc_value!r}")
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
