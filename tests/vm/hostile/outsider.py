# SPDX-License-Identifier: GPL-2.0
"""A process in another network namespace than a device in exclusive mode: device files and netlink, with every number
known, as root and as another user. The device is $OTHER, of namespace d; outsiders are in c and in the first
namespace.

Every request that is refused for an outsider succeeds for an insider, so it was not refused for another reason.
"""

import contextlib
import errno
import os
import socket
import struct

import nldev
from netns import within_namespace
from tap import Skip, equal, run, true

OTHER = os.environ["OTHER"]
OUTSIDE, INSIDE = (None, "c"), "d"
NOBODY = 65534
CLASSES = "/sys/class"
# rdma/rdma_netlink.h.
GET, SET, DELLINK, PORT_GET, RES_GET, RES_QP_GET, RES_CQ_GET, RES_PD_GET = 1, 2, 4, 5, 9, 10, 12, 14
_REQUEST, _ACK, _DUMP, _ERROR, _DONE = 1, 4, 0x300, 2, 3


def files(folder):
    """Yields the files of the device in a class."""
    with contextlib.suppress(FileNotFoundError):
        for name in sorted(os.listdir(f"{CLASSES}/{folder}")):
            with contextlib.suppress(OSError), open(f"{CLASSES}/{folder}/{name}/ibdev", encoding="ascii") as file:
                if file.read().strip() == OTHER:
                    yield f"/dev/infiniband/{name}"


def inside(namespace):
    """Enters a namespace; the first one has no name."""
    return within_namespace(namespace) if namespace else contextlib.nullcontext()


def opened(path, namespace, user):
    """Returns the result of opening a file, in a namespace and as a user: 0, or the errno."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        with inside(namespace):
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            os.open(path, os.O_RDWR)
            os._exit(0)
    except OSError as error:
        os._exit(error.errno)
    finally:
        os._exit(255)


def device_files():
    """An outsider cannot open the device's files: EPERM"""
    found = [*files("infiniband_verbs"), *files("infiniband_mad")]
    true(found, "no device files")
    for path in found:
        os.chmod(path, 0o666)
        for user in (0, NOBODY):
            for namespace in OUTSIDE:
                code = opened(path, namespace, user)
                equal(errno.errorcode.get(code, code), "EPERM", f"{path} from {namespace} as {user}")
            equal(opened(path, INSIDE, user), 0, f"{path} from {INSIDE} as {user}")
    if not any("umad" in path for path in found):
        raise Skip("this kernel has no ib_umad; the verbs' file is refused")


def answers(namespace, command, *attributes, flags=_ACK):
    """Yields the messages of a netlink response, type and content, up to the last one."""
    body = b"".join(attributes)
    with inside(namespace), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, nldev.NETLINK_RDMA) as wire:
        wire.settimeout(30)
        wire.send(struct.pack("=IHHII", 16 + len(body), nldev.NLDEV << 10 | command, _REQUEST | flags, 1, 0) + body)
        while True:
            data = wire.recv(1 << 16)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                yield kind, data[16:length]
                if kind in (_ERROR, _DONE):
                    return
                data = data[length + 3 & ~3:]


def asked(namespace, command, *attributes):
    """Returns the result of a request: 0, or the errno."""
    *_, (kind, content) = answers(namespace, command, *attributes)
    equal(kind, _ERROR, "the last message")
    return -struct.unpack_from("=i", content)[0]


def devices(namespace):
    """Returns names and indices of the devices of a namespace."""
    return {nldev.within(content, nldev.DEV_NAME)[0].rstrip(b"\0").decode():
            nldev.number(nldev.within(content, nldev.DEV_INDEX)[0])
            for kind, content in answers(namespace, GET, flags=_DUMP) if kind not in (_ERROR, _DONE)}


def index():
    """Returns the device index as an attribute."""
    return nldev.attribute(nldev.DEV_INDEX, devices(INSIDE)[OTHER])


def lists():
    """The list of devices omits the device for an outsider"""
    true(OTHER in devices(INSIDE), "its own namespace lists it")
    for namespace in OUTSIDE:
        true(OTHER not in devices(namespace), f"{namespace} lists it: {devices(namespace)}")


def queries():
    """An outsider cannot query the device by its number: EINVAL"""
    port = nldev.attribute(nldev.PORT_INDEX, 1)
    for command, *more in ((GET,), (PORT_GET, port), (RES_GET,)):
        for namespace in OUTSIDE:
            code = asked(namespace, command, index(), *more)
            equal(errno.errorcode.get(code, code), "EINVAL", f"command {command} from {namespace}")
        equal(asked(INSIDE, command, index(), *more), 0, f"command {command} from {INSIDE}")


def dumped(namespace, command):
    """Returns the number of resources listed for a namespace, and 0 or the errno."""
    *some, (kind, content) = answers(namespace, command, index(), flags=_DUMP)
    equal(kind, _DONE, "the last message")
    return len(some), -struct.unpack_from("=i", content)[0]


def resources():
    """An outsider cannot list the resources of the device: EINVAL"""
    for command in (RES_QP_GET, RES_CQ_GET, RES_PD_GET):
        for namespace in OUTSIDE:
            equal(dumped(namespace, command), (0, errno.EINVAL), f"command {command} from {namespace}")
        some, code = dumped(INSIDE, command)
        true(some and not code, f"command {command} from {INSIDE}: {some} messages, error {code}")


def changes():
    """An outsider cannot rename or delete the device: EINVAL"""
    named = nldev.attribute(nldev.DEV_NAME, "stolen")
    number = index()
    for namespace in OUTSIDE:
        for command, *more in ((SET, named), (DELLINK,)):
            code = asked(namespace, command, number, *more)
            equal(errno.errorcode.get(code, code), "EINVAL", f"command {command} from {namespace}")
        true(OTHER in devices(INSIDE), "it exists, under its name")
    equal(asked(INSIDE, SET, number, named), 0, "an insider renames it")
    equal(asked(INSIDE, SET, number, nldev.attribute(nldev.DEV_NAME, OTHER)), 0, "and back")


def deletion():
    """An insider deletes the device by the same request that was refused for outsiders"""
    equal(asked(INSIDE, DELLINK, index()), 0)
    true(OTHER not in devices(INSIDE), "it does not exist")


TESTS = [device_files, lists, queries, resources, changes, deletion]

if __name__ == "__main__":
    run(TESTS)
