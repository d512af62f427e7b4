# SPDX-License-Identifier: GPL-2.0
"""What user space sees of a device before it has a provider for it.

	direct.py DEVICE

Prints the driver id, in hexadecimal, and the ABI version, as libibverbs asks for them, and the error of a context that
asks for no ABI, which is what a provider that does not know the device would create.
"""

import os
import sys

import nldev
import uverbs

GET_CHARDEV, CHARDEV_TYPE, CHARDEV_NAME, CHARDEV_ABI, UVERBS_DRIVER_ID = 15, 69, 70, 71, 73


def main():
    """Prints one line."""
    index = nldev.index_of(sys.argv[1])
    answer = nldev.ask(GET_CHARDEV, {nldev.DEV_INDEX: index, CHARDEV_TYPE: "uverbs"})[0]
    driver, abi = (nldev.number(nldev.within(answer, kind)[0]) for kind in (UVERBS_DRIVER_ID, CHARDEV_ABI))
    name = nldev.within(answer, CHARDEV_NAME)[0].rstrip(b"\0").decode()
    device = os.open(f"/dev/infiniband/{name}", os.O_RDWR | os.O_CLOEXEC)
    error, _ = uverbs.ask_for_context(device, b"", 0)
    print(f"{driver:#x} {abi} {os.strerror(error)}")


if __name__ == "__main__":
    main()
