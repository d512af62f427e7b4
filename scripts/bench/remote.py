# SPDX-License-Identifier: GPL-2.0
"""One of two machines: this one, or one that ssh reaches. Runs commands there as root, says what is missing, and
describes it. Installs nothing.
"""

import contextlib
import ipaddress
import json
import os
import shlex
import subprocess
import tempfile

#: Programs, and the packages of Debian that have them.
PROGRAMS = {
    "ip": "iproute2",
    "rdma": "iproute2",
    "ss": "iproute2",
    "modprobe": "kmod",
    "ethtool": "ethtool",
    "timeout": "coreutils",
    "iperf3": "iperf3",
    "qperf": "qperf",
    "ib_write_bw": "perftest",
    "ib_send_bw": "perftest",
    "ib_read_bw": "perftest",
    "ib_write_lat": "perftest",
}
#: Link types of RDMA devices, and their modules.
MODULES = {"ferroce": "ferroce", "rxe": "rdma_rxe"}
#: Where root's programs are; ssh leaves them out for others.
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Seconds until a short command has failed.
PATIENCE_SECONDS = 120


class Refused(Exception):
    """The benchmark cannot run here; the text is for the reader."""


def features(text):
    """The names of what `ethtool -k` shows as on."""
    pairs = [line.strip().partition(":") for line in text.splitlines()]
    return [name for name, _, value in pairs if value.split()[:1] == ["on"]]


def values(text):
    """{name: value} of lines `name: value`."""
    pairs = [line.partition(":") for line in text.splitlines()]
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def gid_of(address):
    """The GID of an address, as sysfs writes it."""
    packed = ipaddress.ip_address(address).packed
    if len(packed) == 4:
        packed = bytes(10) + b"\xff\xff" + packed
    return packed.hex(":", 2)


def gid_index(listed, address):
    """The index of the RoCE v2 GID of an address in lines `INDEX GID TYPE`; nothing if there is none."""
    for line in listed.splitlines():
        index, gid, *kind = line.split()
        if gid == gid_of(address) and " ".join(kind) == "RoCE v2":
            return index
    return None


class Machine:
    """A machine, and how commands run on it: by ssh, if it has a host name, and by sudo, if the user is not root."""

    def __init__(self, host="", options=()):
        self.host = host
        self.name = host or "this machine"
        self.ssh = ["ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", *options]
        self.sudo = []
        if self.run("id", "-u").strip() != "0":
            self.sudo = ["sudo", "-n"]
            self.run("true", why=f"{self.name}: neither root, nor sudo without a password")

    def argv(self, *command):
        """The command line that runs a command there."""
        words = [*self.sudo, "env", PATH, *command]
        return [*self.ssh, self.host, "--", shlex.join(words)] if self.host else words

    def start(self, *command, **more):
        """Starts a command, in a session of its own: an interrupt from the terminal is for this program only, which
        then cleans up."""
        return subprocess.Popen(self.argv(*command), stdin=subprocess.DEVNULL, start_new_session=True, **more)

    def run(self, *command, why=""):
        """What a command prints; if it fails, `why` or what it says tells the reader."""
        with tempfile.TemporaryFile("w+") as errors:
            process = self.start(*command, stdout=subprocess.PIPE, stderr=errors, text=True)
            try:
                printed, _ = process.communicate(timeout=PATIENCE_SECONDS)
            except subprocess.TimeoutExpired as error:
                process.kill()
                raise Refused(f"{self.name}: {shlex.join(command)} takes too long") from error
            except KeyboardInterrupt:
                # What it does must be done before it is undone.
                process.wait(PATIENCE_SECONDS)
                raise
            errors.seek(0)
            if process.returncode:
                said = errors.read().strip() or f"code {process.returncode}"
                raise Refused(f"{why or f'{self.name}: {shlex.join(command)} fails'}: {said}")
        return printed

    def attempt(self, *command):
        """What a command prints; nothing if it fails."""
        try:
            return self.run(*command)
        except Refused:
            return ""

    def missing(self):
        """What the benchmark needs and this machine lacks, one text each."""
        found = 'for name; do command -v "$name" >/dev/null || echo "$name"; done'
        lacking = self.run("sh", "-c", found, "sh", *PROGRAMS).split()
        for name in lacking:
            yield f"{self.name} has no {name}: install the package {PROGRAMS[name]}"
        for module in MODULES.values():
            if not self.has_module(module) and not self.attempt("modinfo", "-n", module):
                where = "see Documentation/build.rst" if module == "ferroce" else "its kernel has none"
                yield f"{self.name} has no module {module}: {where}"

    def has_module(self, name):
        """Whether it is loaded."""
        return bool(self.attempt("ls", "-d", f"/sys/module/{name}"))

    def read(self, path):
        """A file of one line; nothing if there is none."""
        return self.attempt("cat", path).strip()

    def route(self, address):
        """(netdev, own address) of the way to an address."""
        found = json.loads(self.run("ip", "-j", "route", "get", address))[0]
        return found["dev"], found["prefsrc"]

    def netdev_of(self, address):
        """The netdev that has an address."""
        for link in json.loads(self.run("ip", "-j", "addr")):
            if any(info.get("local") == address for info in link.get("addr_info", ())):
                return link["ifname"]
        raise Refused(f"{address} is not an address of {self.name}: give one with --address")

    def rdma_devices(self, netdev):
        """The RDMA devices of a netdev."""
        links = json.loads(self.run("rdma", "-j", "link") or "[]")
        return [link["ifname"] for link in links if link.get("netdev") == netdev]

    def gid_index(self, device, address):
        """The index of a GID; waits some seconds for it, since the core adds it in a work item."""
        script = (
            'cd "/sys/class/infiniband/$1/ports/1" || exit; for try in 1 2 3 4 5 6 7 8 9 10; do '
            'grep -qs "$2" gids/* && break; sleep 0.5; done; for i in $(seq 0 31); do gid=$(cat gids/$i) && '
            'type=$(cat gid_attrs/types/$i 2>/dev/null) && echo "$i $gid $type"; done; true'
        )
        found = gid_index(self.run("sh", "-c", script, "sh", device, gid_of(address)), address)
        if found is None:
            raise Refused(f"{self.name}: the device of {device} has no GID for {address}")
        return found

    @contextlib.contextmanager
    def link(self, kind, netdev):
        """An RDMA link of a kind, as long as it is held, with its module. What is removed is what was not there."""
        device, module = f"bench_{kind}", MODULES[kind]
        with contextlib.ExitStack() as undo:
            # First what removes it, or an interrupt could come between.
            if not self.has_module(module):
                undo.callback(self.attempt, "modprobe", "-r", module)
                self.run("modprobe", module)
            undo.callback(self.attempt, "rdma", "link", "del", device)
            self.run("rdma", "link", "add", device, "type", kind, "netdev", netdev)
            ours = self.read(f"/sys/class/infiniband/{device}/node_desc") == "ferroce"
            if ours != (kind == "ferroce"):
                raise Refused(f"{self.name}: ferroce is loaded with as_rxe=1 and takes the place of rdma_rxe")
            yield device

    def description(self, netdev):
        """What its figures depend on."""
        processors = values(self.run("cat", "/proc/cpuinfo"))
        speed = self.read(f"/sys/class/net/{netdev}/speed")
        return {
            "kernel": self.run("uname", "-r").strip(),
            "processor": processors.get("model name") or processors.get("CPU part", "unknown"),
            "processors": int(self.run("nproc")),
            "memory": values(self.run("cat", "/proc/meminfo"))["MemTotal"],
            "virtual": self.attempt("systemd-detect-virt").strip(),
            "load": self.read("/proc/loadavg").split()[0],
            "netdev": netdev,
            "nic": values(self.attempt("ethtool", "-i", netdev)),
            "speed": speed if speed.isdigit() else "",
            "mtu": int(self.read(f"/sys/class/net/{netdev}/mtu")),
            "offloads": features(self.attempt("ethtool", "-k", netdev)),
            "ferroce": self.attempt("modinfo", "-F", "version", "ferroce").strip() or "without version",
        }


@contextlib.contextmanager
def reached(host):
    """The machine of a host, all of whose commands share one connection."""
    with tempfile.TemporaryDirectory(prefix="ferroce-ssh.") as directory:
        shared = ("-o", "ControlMaster=auto", "-o", f"ControlPath={os.path.join(directory, '%C')}")
        machine = Machine(host, (*shared, "-o", "ControlPersist=60"))
        try:
            yield machine
        finally:
            subprocess.run([*machine.ssh, "-O", "exit", host], capture_output=True, check=False)
