"""One rank of a communicator whose others are ghosts: ``ghosts.py RANKS`` prints JSON.

To be run with WARPSERVE_GHOST_RANKS=1. Gives what each collective left in control memory, and how
long it took, in ns.
"""

import ctypes
import json
import struct
import sys

import nccl as real

RANKS = int(sys.argv[1])
VALUES = (1.0, 2.0)


def main():
    real.cuda, real.nccl = real.load()
    library = real.nccl
    comm, unique = real.pointer(), real.new_id()
    real.check(library.ncclCommInitRank(ctypes.byref(comm), RANKS, unique, 0))
    stream = real.new_stream()
    found = {}
    for name, count in (("ncclAllReduce", len(VALUES)), ("large", 1 << 20)):
        buffer = real.Buffer(struct.pack(f"<{count}f", *VALUES, *([0.0] * (count - len(VALUES)))))
        begin = real.wait(stream)
        size = ctypes.c_size_t(count)
        arguments = (buffer.address, buffer.address, size, real.FLOAT32, real.SUM, comm, stream)
        real.check(library.ncclAllReduce(*arguments))
        found[name] = [struct.unpack_from("<2f", buffer.read()), real.wait(stream) - begin]
    half = real.pointer()
    real.check(library.ncclCommSplit(comm, 0, 0, ctypes.byref(half), None))
    count = ctypes.c_int()
    real.check(library.ncclCommCount(half, ctypes.byref(count)))
    found["split"] = count.value
    begin = real.wait(stream)
    gathered = real.Buffer(bytes(4 * RANKS))
    own = real.Buffer(struct.pack("<f", 7.0))
    size = ctypes.c_size_t(1)
    real.check(
        library.ncclAllGather(own.address, gathered.address, size, real.FLOAT32, comm, stream)
    )
    real.wait(stream)
    found["gathered"] = struct.unpack(f"<{RANKS}f", gathered.read())
    library.ncclSend(own.address, size, real.FLOAT32, 1, comm, stream)
    error = ctypes.c_int()
    real.check(library.ncclCommGetAsyncError(comm, ctypes.byref(error)))
    found["after_send"] = error.value
    print(json.dumps(found))


if __name__ == "__main__":
    main()
