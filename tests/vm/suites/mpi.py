# SPDX-License-Identifier: GPL-2.0
"""The body of each rank of the MPI test: a ring, reductions, and one-sided operations, all checked."""

import array

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
SIZE = WORLD.Get_size()


def ring(length):
    """Passes a block around the ring; each rank adds its number to every element."""
    block = array.array("l", [0] * length)
    if RANK == 0:
        WORLD.Send(block, dest=1)
        WORLD.Recv(block, source=SIZE - 1)
        want = sum(range(SIZE))
        assert all(value == want for value in block), f"ring of {length}: {block[0]}, wanted {want}"
        return
    WORLD.Recv(block, source=RANK - 1)
    WORLD.Send(array.array("l", [value + RANK for value in block]), dest=(RANK + 1) % SIZE)


def reduction(length):
    """Sums an array over all ranks and compares it with the computed result."""
    mine = array.array("l", [RANK * length + i for i in range(length)])
    total = array.array("l", [0] * length)
    WORLD.Allreduce(mine, total, op=MPI.SUM)
    for i in (0, length // 2, length - 1):
        want = sum(rank * length + i for rank in range(SIZE))
        assert total[i] == want, f"allreduce of {length}, element {i}: {total[i]}, wanted {want}"


def exchange(length):
    """Each rank sends to its neighbour and receives from the other one at the same time."""
    mine = array.array("l", [RANK] * length)
    theirs = array.array("l", [-1] * length)
    WORLD.Sendrecv(mine, dest=(RANK + 1) % SIZE, recvbuf=theirs, source=(RANK - 1) % SIZE)
    assert all(value == (RANK - 1) % SIZE for value in theirs), f"exchange of {length}"


def counter(times):
    """All ranks atomically add to a number of rank 0."""
    memory = array.array("l", [0])
    window = MPI.Win.Create(memory, comm=WORLD)
    one, before = array.array("l", [1]), array.array("l", [0])
    for _ in range(times):
        window.Lock(0)
        window.Fetch_and_op(one, before, 0, op=MPI.SUM)
        window.Unlock(0)
    WORLD.Barrier()
    window.Lock(0)
    found = array.array("l", [0])
    window.Get(found, 0)
    window.Unlock(0)
    window.Free()
    assert found[0] == SIZE * times, f"counter: {found[0]}, wanted {SIZE * times}"


for count in (1, 128, 8192, 32768):
    ring(count)
    reduction(count)
    exchange(count)
counter(20)
WORLD.Barrier()
if RANK == 0:
    print("all results are right")
