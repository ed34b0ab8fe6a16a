"""Random right and wrong use of memory, streams, events, graphs and devices: fuzz.py SEED CALLS.

A model of what exists says which error each call gets. Ends with an error at the first call that
gets another; prints how often each code came.
"""

import ctypes
import json
import random
import sys
from collections import Counter

OK, INVALID_VALUE, NO_MEMORY, INVALID_DIRECTION = 0, 1, 2, 21
NO_FUNCTION, INVALID_DEVICE, INVALID_HANDLE, ILLEGAL_STATE = 98, 101, 400, 401
DEVICES = 2
CARD_BYTES = 85_017_755_648
runtime = ctypes.CDLL("libcudart.so.13")
runtime.cudaMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
runtime.cudaMemset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
runtime.cudaMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
runtime.cudaMallocHost.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
runtime.cudaMallocAsync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
for name in (
    "cudaFree",
    "cudaFreeHost",
    "cudaStreamDestroy",
    "cudaStreamQuery",
    "cudaStreamSynchronize",
    "cudaEventDestroy",
    "cudaEventQuery",
    "cudaGraphDestroy",
    "cudaGraphExecDestroy",
):
    getattr(runtime, name).argtypes = [ctypes.c_void_p]
for name in ("cudaFreeAsync", "cudaEventRecord", "cudaGraphLaunch"):
    getattr(runtime, name).argtypes = [ctypes.c_void_p] * 2
runtime.cudaStreamWaitEvent.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint]
runtime.cudaEventElapsedTime.argtypes = [ctypes.c_void_p] * 3
runtime.cudaStreamEndCapture.argtypes = [ctypes.c_void_p] * 2
runtime.cudaGraphCreate.argtypes = [ctypes.c_void_p, ctypes.c_uint]
runtime.cudaGraphInstantiate.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64]
STRANGER = ctypes.create_string_buffer(64)


class Fuzz:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.device = 0
        self.memory = {}  # address: (bytes, "device" or "host")
        self.gone = []  # addresses that were freed
        self.streams, self.events = {}, {}  # handle: device
        self.recorded = set()
        self.graphs, self.executables = (
            {},
            {},
        )  # as sets, in order of creation: addresses are random
        self.dead = {"stream": [], "event": [], "graph": [], "executable": []}
        self.last_error = OK
        self.codes = Counter()

    def expect(self, name, expected, *arguments):
        code = getattr(runtime, name)(*arguments)
        assert code == expected, f"{name}{arguments}: {code} instead of {expected}"
        self.codes[code] += 1
        if code != OK:
            self.last_error = code
        return code

    def made(self, name, *arguments):
        handle = ctypes.c_void_p()
        self.expect(name, OK, ctypes.byref(handle), *arguments)
        return handle.value

    def pick(self, living, kind):
        """A living handle, a dead one, or a stranger's; and whether it lives."""
        choice = self.random.random()
        if choice < 0.7 and living:
            return self.random.choice(list(living)), True
        dead = [handle for handle in self.dead[kind] if handle not in living]
        if choice < 0.9 and dead:
            return self.random.choice(dead), False
        return ctypes.addressof(STRANGER), False

    def pick_stream(self):
        return self.pick(self.streams, "stream")

    # Memory

    def call_malloc(self):
        size = self.random.choice([1, 100, 512, 4096, 3 << 20, 64 << 20])
        name, kind = self.random.choice([("cudaMalloc", "device"), ("cudaMallocHost", "host")])
        address = self.made(name, size)
        assert address not in self.memory
        self.memory[address] = (size, kind)

    def call_malloc_in_order(self):
        stream, lives = self.pick_stream()
        if not lives:
            self.expect(
                "cudaMallocAsync", INVALID_HANDLE, ctypes.byref(ctypes.c_void_p()), 8, stream
            )
            return
        self.memory[self.made("cudaMallocAsync", 256, stream)] = (256, "device")

    def call_malloc_wrong(self):
        out = ctypes.c_void_p()
        self.expect(
            "cudaMalloc", NO_MEMORY, ctypes.byref(out), self.random.randint(CARD_BYTES, 1 << 62)
        )
        self.expect("cudaMalloc", INVALID_VALUE, None, 8)

    def call_free(self):
        choice = self.random.random()
        if choice < 0.5 and self.memory:
            address = self.random.choice(list(self.memory))
            size, kind = self.memory.pop(address)
            self.gone.append(address)
            right, wrong = ("cudaFree", "cudaFreeHost")[:: 1 if kind == "device" else -1]
            self.expect(wrong, INVALID_VALUE, address)
            if size > 1:
                self.expect(right, INVALID_VALUE, address + self.random.randrange(1, size))
            self.expect(right, OK, address)
            self.expect(right, INVALID_VALUE, address)
        elif choice < 0.8 and self.gone:
            address = self.random.choice(self.gone)
            if address not in self.memory:
                self.expect("cudaFree", INVALID_VALUE, address)
                self.expect("cudaFreeHost", INVALID_VALUE, address)
        else:
            self.expect("cudaFree", OK, None)
            self.expect("cudaFree", INVALID_VALUE, ctypes.addressof(STRANGER))

    def call_free_in_order(self):
        stream, lives = self.pick_stream()
        on_device = [at for at, (_, kind) in self.memory.items() if kind == "device"]
        if not on_device:
            return
        address = self.random.choice(on_device)
        if not lives:
            self.expect("cudaFreeAsync", INVALID_HANDLE, address, stream)
            return
        self.expect("cudaFreeAsync", INVALID_VALUE, address + 1, stream)
        self.expect("cudaFreeAsync", OK, address, stream)
        self.gone.append(address)
        del self.memory[address]

    def call_memset(self):
        on_device = [at for at, (_, kind) in self.memory.items() if kind == "device"]
        if not on_device:
            return
        address = self.random.choice(on_device)
        size = self.memory[address][0]
        begin = self.random.randint(0, size)
        count = self.random.randint(0, 2 * size)
        expected = OK if begin + count <= size else INVALID_VALUE
        self.expect("cudaMemset", OK if count == 0 else expected, address + begin, 7, count)

    def call_copy(self):
        if not self.memory:
            return
        to, source = (self.random.choice(list(self.memory)) for _ in range(2))
        room = min(self.memory[to][0], self.memory[source][0], 1 << 20)
        count = self.random.randint(1, room)
        self.expect("cudaMemcpy", OK, to, source, count, 4)
        gone = [at for at in self.gone if at not in self.memory and self.is_outside(at)]
        if gone and self.memory[to][1] == "device":
            self.expect("cudaMemcpy", INVALID_VALUE, to, self.random.choice(gone), 1, 3)
        self.expect("cudaMemcpy", INVALID_DIRECTION, to, source, 1, self.random.choice([5, 77, -1]))

    def is_outside(self, address):
        return not any(at <= address < at + size for at, (size, _) in self.memory.items())

    # Devices, streams, events

    def call_set_device(self):
        device = self.random.randint(-2, DEVICES + 1)
        right = 0 <= device < DEVICES
        self.expect("cudaSetDevice", OK if right else INVALID_DEVICE, device)
        if right:
            self.device = device

    def call_create(self):
        flags = self.random.choice([0, 1])
        stream = ctypes.c_void_p()
        self.expect("cudaStreamCreateWithFlags", OK, ctypes.byref(stream), flags)
        self.streams[stream.value] = self.device
        self.events[self.made("cudaEventCreate")] = self.device
        self.expect("cudaStreamCreateWithFlags", INVALID_VALUE, ctypes.byref(stream), 64)

    def call_destroy(self):
        for kind, living, name in (
            ("stream", self.streams, "cudaStreamDestroy"),
            ("event", self.events, "cudaEventDestroy"),
        ):
            handle, lives = self.pick(living, kind)
            self.expect(name, OK if lives else INVALID_HANDLE, handle)
            if lives:
                del living[handle]
                self.recorded.discard(handle)
                self.dead[kind].append(handle)

    def call_ask(self):
        stream, lives = self.pick_stream()
        self.expect("cudaStreamSynchronize", OK if lives else INVALID_HANDLE, stream)
        self.expect("cudaStreamQuery", OK if lives else INVALID_HANDLE, stream)
        event, lives = self.pick(self.events, "event")
        expected = OK if lives else INVALID_HANDLE
        self.expect("cudaEventSynchronize", expected, ctypes.c_void_p(event))
        self.expect("cudaEventQuery", expected, event)

    def call_record(self):
        stream, stream_lives = self.pick_stream()
        event, event_lives = self.pick(self.events, "event")
        both = stream_lives and event_lives
        right = both and self.streams[stream] == self.events[event]
        self.expect("cudaEventRecord", OK if right else INVALID_HANDLE, event, stream)
        if right:
            self.recorded.add(event)
        self.expect("cudaStreamWaitEvent", OK if both else INVALID_HANDLE, stream, event, 0)

    def call_elapsed(self):
        (start, lives), (end, end_lives) = (self.pick(self.events, "event") for _ in range(2))
        right = lives and end_lives and {start, end} <= self.recorded
        right = right and self.events[start] == self.events[end]
        if right:
            self.expect("cudaEventSynchronize", OK, ctypes.c_void_p(start))
            self.expect("cudaEventSynchronize", OK, ctypes.c_void_p(end))
        ms = ctypes.c_float()
        expected = OK if right else INVALID_HANDLE
        self.expect("cudaEventElapsedTime", expected, ctypes.byref(ms), start, end)

    # Graphs and kernels

    def call_graph(self):
        self.graphs[self.made("cudaGraphCreate", 0)] = True
        graph, lives = self.pick(self.graphs, "graph")
        executable = ctypes.c_void_p()
        expected = OK if lives else INVALID_VALUE
        self.expect("cudaGraphInstantiate", expected, ctypes.byref(executable), graph, 0)
        if lives:
            self.executables[executable.value] = True
        self.expect("cudaGraphDestroy", expected, graph)
        if lives:
            del self.graphs[graph]
            self.dead["graph"].append(graph)
            self.expect("cudaGraphDestroy", INVALID_VALUE, graph)

    def call_launch_graph(self):
        stream, stream_lives = self.pick_stream()
        executable, lives = self.pick(self.executables, "executable")
        if stream_lives or not lives:
            expected = OK if lives else INVALID_VALUE
            stream = stream if stream_lives else None
            self.expect("cudaGraphLaunch", expected, executable, stream)
        if lives and self.random.random() < 0.5:
            self.expect("cudaGraphExecDestroy", OK, executable)
            del self.executables[executable]
            self.dead["executable"].append(executable)

    def call_end_no_capture(self):
        stream, lives = self.pick_stream()
        expected = ILLEGAL_STATE if lives else INVALID_HANDLE
        graph = ctypes.c_void_p()
        self.expect("cudaStreamEndCapture", expected, stream, ctypes.byref(graph))

    def call_stranger_for_a_kernel(self):
        attributes = (ctypes.c_char * 256)()
        self.expect("cudaFuncGetAttributes", NO_FUNCTION, attributes, STRANGER)

    def call_last_error(self):
        assert runtime.cudaPeekAtLastError() == self.last_error
        assert runtime.cudaGetLastError() == self.last_error
        assert runtime.cudaGetLastError() == OK
        self.last_error = OK

    def run(self, calls):
        todo = [getattr(self, name) for name in dir(self) if name.startswith("call_")]
        for _ in range(calls):
            self.random.choice(todo)()
            if len(self.memory) > 200:
                self.call_free()
        return self.codes


def main():
    codes = Fuzz(int(sys.argv[1])).run(int(sys.argv[2]))
    print(json.dumps(dict(sorted(codes.items()))))


if __name__ == "__main__":
    main()
