# SPDX-License-Identifier: GPL-2.0
"""The commands of /dev/infiniband/uverbs*, without a library: layouts with a kind for each field, so that a fuzzer
can fill them at random; and the calls themselves.

The responses of both ABIs have the same sizes, and the offsets and sizes of rings at the same places. A context has the
ABI that PROVIDER names, unless the caller gives another one.

C headers: rdma/ib_user_verbs.h, rdma/rdma_user_ioctl_cmds.h, rdma/rdma_user_rxe.h, rdma/ferroce-abi.h.
"""

import ctypes
import mmap
import os
import struct

import ring_direct
import ring_rxe

(GET_CONTEXT, QUERY_DEVICE, QUERY_PORT, ALLOC_PD, DEALLOC_PD, CREATE_AH, _, _, DESTROY_AH, REG_MR, _, REREG_MR, _,
 DEREG_MR, ALLOC_MW, _, DEALLOC_MW, CREATE_COMP_CHANNEL, CREATE_CQ, RESIZE_CQ, DESTROY_CQ, POLL_CQ, _, REQ_NOTIFY_CQ,
 CREATE_QP, QUERY_QP, MODIFY_QP, DESTROY_QP, POST_SEND, POST_RECV, ATTACH_MCAST, DETACH_MCAST, CREATE_SRQ,
 MODIFY_SRQ, QUERY_SRQ, DESTROY_SRQ, POST_SRQ_RECV, OPEN_XRCD, CLOSE_XRCD, CREATE_XSRQ, OPEN_QP) = range(41)
EXTENDED = 0x80000000
EX_CREATE_FLOW, EX_DESTROY_FLOW, EX_CREATE_WQ, EX_MODIFY_WQ, EX_DESTROY_WQ, EX_CREATE_TABLE, EX_DESTROY_TABLE, \
    EX_MODIFY_CQ = (EXTENDED | number for number in range(50, 58))
IOCTL = 0xC0181B01
# That of PROVIDER: see ring.py, whose names need a device.
ABI = ring_direct if os.environ.get("PROVIDER") == "direct" else ring_rxe

libc = ctypes.CDLL(None, use_errno=True)

# An address vector: struct ib_uverbs_qp_dest.
PATH = "16s:gid I:flow H:zero H:zero B:gid_index B:hops B:byte B:byte B:byte B:byte B:one B:one"
ROUTE = "16s:gid I:flow B:gid_index B:hops B:byte B:zero H:zero B:byte B:byte B:byte B:one B:one B:zero"
CAPS = "I:count I:count I:pieces I:pieces I:inline"
MODIFY = f"{PATH} {PATH} I:qp I:mask I:qkey I:psn I:psn I:qpn I:access H:zero H:zero B:state B:state B:mtu B:zero " \
    "B:zero B:few B:few B:few B:one B:few B:few B:few B:one B:few 2s:padding"
# Command: size of its response, kind of the object that it creates, its fields. `Q:answer` is the response address.
COMMANDS = {
    QUERY_DEVICE: (176, None, "Q:answer"),
    QUERY_PORT: (40, None, "Q:answer B:one 7s:padding"),
    ALLOC_PD: (4, "pd", "Q:answer"),
    DEALLOC_PD: (0, None, "I:pd"),
    CREATE_AH: (12, "ah", f"Q:answer Q:any I:pd I:zero {ROUTE}"),
    DESTROY_AH: (0, None, "I:ah"),
    REG_MR: (12, "mr", "Q:answer Q:address Q:length Q:address I:pd I:access"),
    REREG_MR: (8, None, "Q:answer I:mr I:few Q:address Q:length Q:address I:pd I:access"),
    DEREG_MR: (0, None, "I:mr"),
    ALLOC_MW: (8, "mw", "Q:answer I:pd B:window 3s:padding"),
    DEALLOC_MW: (0, None, "I:mw"),
    CREATE_COMP_CHANNEL: (4, "channel", "Q:answer"),
    CREATE_CQ: (24, "cq", "Q:answer Q:any I:count I:zero i:channel I:zero"),
    RESIZE_CQ: (24, None, "Q:answer I:cq I:count"),
    DESTROY_CQ: (8, None, "Q:answer I:cq I:zero"),
    POLL_CQ: (200, None, "Q:answer I:cq I:few"),
    REQ_NOTIFY_CQ: (0, None, "I:cq I:few"),
    CREATE_QP: (64, "qp", f"Q:answer Q:any I:pd I:cq I:cq I:srq {CAPS} B:few B:kind B:flag B:zero"),
    QUERY_QP: (152, None, "Q:answer I:qp I:mask"),
    MODIFY_QP: (0, None, MODIFY),
    DESTROY_QP: (4, None, "Q:answer I:qp I:zero"),
    POST_SEND: (4, None, "Q:answer I:qp I:few I:few I:element 256s:noise"),
    POST_RECV: (4, None, "Q:answer I:qp I:few I:few I:element 128s:noise"),
    ATTACH_MCAST: (0, None, "16s:group I:qp H:zero H:zero"),
    DETACH_MCAST: (0, None, "16s:group I:qp H:zero H:zero"),
    CREATE_SRQ: (40, "srq", "Q:answer Q:any I:pd I:count I:pieces I:few"),
    MODIFY_SRQ: (0, None, "I:srq I:few I:count I:few Q:answer"),
    QUERY_SRQ: (16, None, "Q:answer I:srq I:zero"),
    DESTROY_SRQ: (4, None, "Q:answer I:srq I:zero"),
    POST_SRQ_RECV: (4, None, "Q:answer I:srq I:few I:few I:element 128s:noise"),
    OPEN_XRCD: (4, "xrcd", "Q:answer i:file I:create"),
    CLOSE_XRCD: (0, None, "I:xrcd"),
    CREATE_XSRQ: (40, "srq", "Q:answer Q:any I:shared I:pd I:count I:pieces I:few I:few I:xrcd I:cq"),
    OPEN_QP: (64, "qp", "Q:answer Q:any I:xrcd I:qpn B:kind 7s:padding"),
    EXTENDED | QUERY_DEVICE: (304, None, "I:zero I:zero"),
    EXTENDED | CREATE_CQ: (16, "cq", "Q:any I:count I:zero i:channel I:zero I:zero I:zero"),
    EXTENDED | CREATE_QP: (40, "qp", f"Q:any I:pd I:cq I:cq I:srq {CAPS} B:few B:kind B:flag B:zero I:zero I:flag "
                           "I:zero I:zero"),
    EXTENDED | MODIFY_QP: (8, None, f"{MODIFY} I:zero I:zero"),
    EX_CREATE_FLOW: (8, None, "I:zero I:qp I:few H:few H:few B:few B:few 6s:noise"),
    EX_CREATE_WQ: (24, None, "I:zero I:few Q:any I:pd I:cq I:count I:pieces I:few I:zero"),
    EX_CREATE_TABLE: (16, None, "I:zero I:few I:few I:few"),
    EX_MODIFY_CQ: (0, None, "I:cq I:few H:few H:few I:zero"),
}
# The commands that destroy an object by its handle: the response of a create command begins with the handle.
DESTROY = {"pd": DEALLOC_PD, "ah": DESTROY_AH, "mr": DEREG_MR, "mw": DEALLOC_MW, "cq": DESTROY_CQ, "qp": DESTROY_QP,
           "srq": DESTROY_SRQ, "xrcd": CLOSE_XRCD}
# The commands that create an object; the older one if there are two.
CREATE = {made: command for command, (_, made, _) in reversed(COMMANDS.items()) if made}
# Offsets of struct mminfo or struct ferroce_mapping in the responses.
RINGS = {CREATE_CQ: (8,), RESIZE_CQ: (8,), CREATE_QP: (32, 48), CREATE_SRQ: (16,), CREATE_XSRQ: (16,),
         EXTENDED | CREATE_CQ: (16,), EXTENDED | CREATE_QP: (40, 56)}


def layout(command):
    """Returns struct format, kinds and sizes of the fields of a command."""
    formats, kinds = zip(*(field.split(":") for field in COMMANDS[command][2].split()))
    return "=" + "".join(formats), kinds, [struct.calcsize("=" + one) for one in formats]


LAYOUTS = {command: layout(command) for command in COMMANDS}


def request(command, body, answer, words=None):
    """Returns the bytes to write for a command; `answer` is the address of its response."""
    size = COMMANDS[command][0] if command in COMMANDS else 64
    if not command & EXTENDED:
        body += bytes(-len(body) % 4)
        return struct.pack("=IHH", command, (8 + len(body)) // 4 if words is None else words, size // 4) + body
    body += bytes(-len(body) % 8)
    head = struct.pack("=IHH", command, len(body) // 8 if words is None else words, size // 8)
    # The driver's own response follows; without a response the core requires a zero address.
    return head + struct.pack("=QHHI", answer if size else 0, 0, 4 if size else 0, 0) + body


def command(number, answer, *fields):
    """Returns the bytes of a command with these fields; `answer`, the address of its response, fills its field."""
    form, kinds, _ = LAYOUTS[number]
    fields = iter(fields)
    return request(number, struct.pack(form, *(answer if kind == "answer" else next(fields) for kind in kinds)), answer)


def issue(descriptor, data):
    """Writes a command; returns 0, or the errno."""
    try:
        os.write(descriptor, data)
    except OSError as error:
        return error.errno
    return 0


def ask_for_context(descriptor, asked, room):
    """Creates the context of an open device file by the older command, with a request of the driver's own, and room for
    its response; returns 0, or the errno, and the response. If the newer command, which libibverbs uses, fails, the
    core leaks a reference to the process, and kmemleak reports it.
    """
    answer = ctypes.create_string_buffer(8 + room)
    head = struct.pack("=IHHQ", GET_CONTEXT, 4 + len(asked) // 4, 2 + room // 4, ctypes.addressof(answer))
    return issue(descriptor, head + asked), answer.raw[8:]


def get_context(descriptor, abi=ABI):
    """Creates the context of an open device file; returns 0, or the errno."""
    return ask_for_context(descriptor, abi.CONTEXT_REQUEST, abi.CONTEXT_ANSWER)[0]


def open_context(path, abi=ABI):
    """Opens another file of the device and creates its context; returns its descriptor."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    error = get_context(descriptor, abi)
    if error:
        os.close(descriptor)
        raise OSError(error, os.strerror(error))
    return descriptor


def attributes_of(descriptor, target, method, attributes, driver=ABI.DRIVER):
    """Issues an ioctl; attributes are (number, length, flags, datum). Returns 0, or the errno; and the data after the
    call: the first datum of a new object is its handle.
    """
    body = b"".join(struct.pack("=HHHHQ", number, length, flags, 0, datum)
                    for number, length, flags, datum in attributes)
    head = struct.pack("=HHHHQII", 24 + len(body), target, method, len(attributes), 0, driver, 0)
    data = ctypes.create_string_buffer(head + body)
    refused = libc.ioctl(descriptor, ctypes.c_ulong(IOCTL), data)
    error = ctypes.get_errno() if refused else 0
    return error, [datum for *_, datum in struct.iter_unpack("=HHHHQ", data.raw[24:24 + len(body)])]


def ioctl(descriptor, target, method, attributes, driver=ABI.DRIVER):
    """Issues an ioctl; returns 0, or the errno."""
    return attributes_of(descriptor, target, method, attributes, driver)[0]


# Object types of ioctls; below, the method that creates a queue, two methods of a region, and a flag: mandatory.
DEVICE, INFO_HANDLES, QUERY_PORT_SPEED = 0, 1, 7
OBJECTS = {"pd": 1, "cq": 3, "qp": 4, "srq": 5, "ah": 6, "mr": 7, "mw": 8}
# The method that destroys an object, and the size of its response (rdma/ib_user_ioctl_cmds.h).
DESTROYING = {"pd": (0, 0), "cq": (1, 8), "qp": (1, 4), "srq": (1, 4), "ah": (0, 0), "mr": (1, 0), "mw": (0, 0)}
CREATING, ADVISE_MR, REG_DMABUF_MR, MANDATORY = 0, 2, 4, 1
# Attributes of the driver's own input and response.
UHW_IN, UHW_OUT = 0x1000, 0x1001


def required(given):
    """Returns attributes (number, length, datum) as mandatory ones."""
    return [(number, size, MANDATORY, datum) for number, size, datum in given]


def advise_mr(descriptor, pd, advice, flags, pieces):
    """ibv_advise_mr, which librxe does not have, on pieces (address, length, lkey); returns 0, or the errno."""
    sges = b"".join(struct.pack("=QII", *piece) for piece in pieces)
    buffer = ctypes.create_string_buffer(sges, len(sges))
    given = [(0, 0, pd), (1, 8, advice), (2, 4, flags), (3, len(sges), ctypes.addressof(buffer))]
    return ioctl(descriptor, OBJECTS["mr"], ADVISE_MR, required(given))


def reg_dmabuf_mr(descriptor, pd, place, buffer, access):
    """ibv_reg_dmabuf_mr; the place is (offset, length, address). Returns 0, or the errno; the handle, and the keys."""
    keys = [ctypes.c_uint32(), ctypes.c_uint32()]
    given = [(0, 0, 0), (1, 0, pd), *((2 + at, 8, datum) for at, datum in enumerate(place)),
             (5, 4, buffer & 0xFFFFFFFF), (6, 4, access),
             *((7 + at, 4, ctypes.addressof(key)) for at, key in enumerate(keys))]
    error, found = attributes_of(descriptor, OBJECTS["mr"], REG_DMABUF_MR, required(given))
    return error, found[0], tuple(key.value for key in keys)


def handles(descriptor, kind):
    """Returns the handles of all objects of a kind."""
    found, total = (ctypes.c_uint32 * 1024)(), ctypes.c_uint32()
    given = [(0, 8, OBJECTS[kind]), (1, 4, ctypes.addressof(total)), (2, ctypes.sizeof(found), ctypes.addressof(found))]
    error = ioctl(descriptor, DEVICE, INFO_HANDLES, required(given))
    if error:
        raise OSError(error, os.strerror(error))
    return set(found[:total.value])


# Completion counters (rdma/ib_user_ioctl_cmds.h, since Linux 7.3): the type of the object, a method of the device, one
# of a QP, and those of a counter; what a QP counts; the two values of a counter.
COMP_CNTR, QUERY_COMP_CNTR_CAPS, ATTACH_COMP_CNTR = 19, 8, 2
CREATE_CNTR, DESTROY_CNTR, MODIFY_CNTR, READ_CNTR = range(4)
CNTR_SEND, CNTR_RECV, CNTR_READ, CNTR_REMOTE_READ, CNTR_WRITE, CNTR_REMOTE_WRITE = (1 << bit for bit in range(6))
COMPLETED, FAILED = 0, 1


def comp_cntr_caps(descriptor):
    """ibv_query_comp_cntr_caps; returns 0, or the errno; and the number of counters, the highest value, the operations.
    """
    found = ctypes.c_uint32(), ctypes.c_uint64(), ctypes.c_uint32()
    given = [(at, ctypes.sizeof(place), ctypes.addressof(place)) for at, place in enumerate(found)]
    error = ioctl(descriptor, DEVICE, QUERY_COMP_CNTR_CAPS, required(given))
    return error, tuple(place.value for place in found)


def create_comp_cntr(descriptor, *more):
    """ibv_create_comp_cntr; returns 0, or the errno; and the handle. More: attributes of the driver."""
    error, found = attributes_of(descriptor, COMP_CNTR, CREATE_CNTR, required([(0, 0, 0), *more]))
    return error, found[0]


def destroy_comp_cntr(descriptor, handle):
    """ibv_destroy_comp_cntr; returns 0, or the errno."""
    return ioctl(descriptor, COMP_CNTR, DESTROY_CNTR, required([(0, 0, handle)]))


def modify_comp_cntr(descriptor, handle, entry, op, value):
    """ibv_set_comp_cntr and the like: op 0 sets, 1 adds. Returns 0, or the errno."""
    given = [(0, 0, handle), (1, 8, entry), (2, 8, op), (3, 8, value)]
    return ioctl(descriptor, COMP_CNTR, MODIFY_CNTR, required(given))


def read_comp_cntr(descriptor, handle, entry):
    """ibv_read_comp_cntr; returns 0, or the errno; and the value."""
    value = ctypes.c_uint64()
    given = [(0, 0, handle), (1, 8, entry), (2, 8, ctypes.addressof(value))]
    return ioctl(descriptor, COMP_CNTR, READ_CNTR, required(given)), value.value


def attach_comp_cntr(descriptor, qp, handle, ops):
    """ibv_qp_attach_comp_cntr; returns 0, or the errno."""
    return ioctl(descriptor, OBJECTS["qp"], ATTACH_COMP_CNTR, required([(0, 0, qp), (1, 0, handle), (2, 8, ops)]))


# Unsupported commands: queues are filled and polled without the kernel, and the driver has no such objects.
MISSING = {POLL_CQ, POST_RECV, POST_SRQ_RECV, EX_CREATE_FLOW, EX_CREATE_WQ, EX_CREATE_TABLE}
# Calls that are not commands, but counted like one.
ADVICE, BUFFER, ANY_CALL, MAPPING = "advise_mr", "reg_dmabuf_mr", "any ioctl", "mmap of a ring"


class Tally:
    """Counts, over all processes, how often each command was issued, and how often it succeeded."""

    def __init__(self):
        self.numbers = [*COMMANDS, ADVICE, BUFFER, ANY_CALL, MAPPING]
        self.memory = mmap.mmap(-1, mmap.PAGESIZE)
        self.counts = (ctypes.c_uint32 * (2 * len(self.numbers))).from_buffer(self.memory)

    def add(self, command, error):
        """Counts one call. Concurrent updates may be lost, which is acceptable here."""
        at = 2 * self.numbers.index(command)
        self.counts[at] += 1
        self.counts[at + 1] += not error

    def unused(self):
        """Returns the supported commands that never succeeded."""
        return [number if isinstance(number, str) else f"command {number:#x}"
                for at, number in enumerate(self.numbers) if not self.counts[2 * at + 1] and number not in MISSING]
