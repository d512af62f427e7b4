# SPDX-License-Identifier: GPL-2.0
"""libibverbs itself, for verbs that pyverbs lacks: those of thread domains, and of completion counters.

They are functions of `struct verbs_context`, at fixed distances before `struct ibv_context`, which is its end.
"""

import ctypes

POINTER, INT = ctypes.c_void_p, ctypes.c_int
# In words before the context.
CREATE_CQ_EX, MODIFY_CQ, ALLOC_TD, DEALLOC_TD, ALLOC_PARENT_DOMAIN = 15, 23, 24, 25, 26
RC = 2


class ParentAttr(ctypes.Structure):
    """struct ibv_parent_domain_init_attr."""

    _fields_ = [("pd", POINTER), ("td", POINTER), ("mask", ctypes.c_uint32), ("functions", POINTER * 3)]


class CqAttr(ctypes.Structure):
    """struct ibv_cq_init_attr_ex."""

    _fields_ = [("cqe", ctypes.c_uint32), ("context", POINTER), ("channel", POINTER), ("vector", ctypes.c_uint32),
                ("wc_flags", ctypes.c_uint64), ("mask", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("pd", POINTER)]


class SrqAttr(ctypes.Structure):
    """struct ibv_srq_init_attr."""

    _fields_ = [("context", POINTER), ("attr", ctypes.c_uint32 * 3)]


class QpAttr(ctypes.Structure):
    """struct ibv_qp_init_attr."""

    _fields_ = [("context", POINTER), ("send_cq", POINTER), ("recv_cq", POINTER), ("srq", POINTER),
                ("cap", ctypes.c_uint32 * 5), ("kind", ctypes.c_uint32), ("signal_all", INT)]


class CntrAttr(ctypes.Structure):
    """struct ibv_comp_cntr_init_attr, and struct ibv_qp_attach_comp_cntr_attr without its last field."""

    _fields_ = [("mask", ctypes.c_uint32), ("kind", ctypes.c_uint32), ("flags", ctypes.c_uint32)]


class CntrCaps(ctypes.Structure):
    """struct ibv_comp_cntr_caps."""

    _fields_ = [("max_value", ctypes.c_uint64), ("max_counters", ctypes.c_uint32), ("ops", ctypes.c_uint32)]


class ModifyCq(ctypes.Structure):
    """struct ibv_modify_cq_attr."""

    _fields_ = [("mask", ctypes.c_uint32), ("count", ctypes.c_uint16), ("period", ctypes.c_uint16)]


def pointer_to(structure):
    """Returns the address of a structure."""
    return POINTER(ctypes.addressof(structure))


def all_of(pointers):
    """Yields the pointers of a list that ends with null."""
    at = 0
    while pointers[at]:
        yield POINTER(pointers[at])
        at += 1


class Library:
    """The library, with a context of a device. Objects are addresses."""

    def __init__(self, device):
        self.calls = ctypes.CDLL("libibverbs.so.1", use_errno=True)
        self.calls.ibv_get_device_list.restype = ctypes.POINTER(POINTER)
        self.calls.ibv_get_device_name.restype = ctypes.c_char_p
        devices = self.calls.ibv_get_device_list(None)
        named = (one for one in all_of(devices) if self.calls.ibv_get_device_name(one) == device.encode())
        self.context = self._made("ibv_open_device", next(named))
        self.calls.ibv_free_device_list(devices)

    def _made(self, name, *arguments):
        function = getattr(self.calls, name)
        function.restype = POINTER
        return self._object(function(*arguments), name)

    @staticmethod
    def _object(made, name):
        if not made:
            raise OSError(ctypes.get_errno(), name)
        return POINTER(made)

    def _operation(self, place, result, *arguments):
        address = POINTER.from_address(self.context.value - 8 * place).value
        return ctypes.CFUNCTYPE(result, *(POINTER for _ in arguments), use_errno=True)(address)(*arguments)

    def alloc_pd(self):
        """ibv_alloc_pd."""
        return self._made("ibv_alloc_pd", self.context)

    def alloc_td(self):
        """ibv_alloc_td."""
        mask = ctypes.c_uint32(0)
        made = self._operation(ALLOC_TD, POINTER, self.context, pointer_to(mask))
        return self._object(made, "ibv_alloc_td")

    def alloc_parent_domain(self, domain, thread):
        """ibv_alloc_parent_domain."""
        attr = ParentAttr(pd=domain, td=thread)
        made = self._operation(ALLOC_PARENT_DOMAIN, POINTER, self.context, pointer_to(attr))
        return self._object(made, "ibv_alloc_parent_domain")

    def create_cq_ex(self, domain):
        """ibv_create_cq_ex in a parent domain."""
        attr = CqAttr(cqe=16, mask=1 << 1, pd=domain)
        made = self._operation(CREATE_CQ_EX, POINTER, self.context, pointer_to(attr))
        return self._object(made, "ibv_create_cq_ex")

    def create_srq(self, domain):
        """ibv_create_srq."""
        attr = SrqAttr(attr=(16, 1, 0))
        return self._made("ibv_create_srq", domain, ctypes.byref(attr))

    def create_qp(self, domain, queue):
        """ibv_create_qp, of type RC."""
        attr = QpAttr(send_cq=queue, recv_cq=queue, cap=(16, 16, 1, 1, 0), kind=RC)
        return self._made("ibv_create_qp", domain, ctypes.byref(attr))

    def create_cq(self):
        """ibv_create_cq."""
        return self._made("ibv_create_cq", self.context, 16, None, None, 0)

    def comp_cntr_caps(self):
        """ibv_query_comp_cntr_caps. Returns the error, the number of counters, the highest value, the operations."""
        caps = CntrCaps()
        query = self.calls._ibv_query_comp_cntr_caps  # pylint: disable=protected-access
        error = query(self.context, ctypes.byref(caps), ctypes.c_size_t(ctypes.sizeof(caps)))
        return error, caps.max_counters, caps.max_value, caps.ops

    def create_comp_cntr(self, kind):
        """ibv_create_comp_cntr."""
        attr = CntrAttr(kind=kind)
        return self._made("ibv_create_comp_cntr", self.context, ctypes.byref(attr))

    def change_comp_cntr(self, verb, counter, value):
        """ibv_VERB_comp_cntr. Returns the error."""
        return getattr(self.calls, f"ibv_{verb}_comp_cntr")(counter, ctypes.c_uint64(value))

    def read_comp_cntr(self, counter):
        """ibv_read_comp_cntr and ibv_read_err_comp_cntr. Returns the errors, and the values."""
        values = ctypes.c_uint64(), ctypes.c_uint64()
        verbs = self.calls.ibv_read_comp_cntr, self.calls.ibv_read_err_comp_cntr
        errors = [verb(counter, ctypes.byref(value)) for verb, value in zip(verbs, values)]
        return errors, [value.value for value in values]

    def attach_comp_cntr(self, qp, counter, ops):
        """ibv_qp_attach_comp_cntr. Returns the error."""
        attr = CntrAttr(kind=ops)
        return self.calls.ibv_qp_attach_comp_cntr(qp, counter, ctypes.byref(attr))

    def modify_cq(self, queue, count, period):
        """ibv_modify_cq: moderates events. Returns the error."""
        attr = ModifyCq(mask=1, count=count, period=period)
        return self._operation(MODIFY_CQ, INT, queue, pointer_to(attr))

    def dealloc_td(self, thread):
        """ibv_dealloc_td. Returns the error."""
        return self._operation(DEALLOC_TD, INT, thread)

    def __getattr__(self, name):
        """Other verbs, of one object, that return an error."""
        return getattr(self.calls, f"ibv_{name}")

    @staticmethod
    def handle(domain):
        """The handle of a domain."""
        return ctypes.c_uint32.from_address(domain.value + 8).value

    def close(self):
        """ibv_close_device."""
        self.calls.ibv_close_device(self.context)
