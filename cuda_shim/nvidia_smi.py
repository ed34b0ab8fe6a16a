"""`nvidia-smi` in a session with virtual GPUs: what scripts and engines ask it, by NVML.

Knows `-L`, `-i`, `--query-gpu`, `--query-compute-apps` and `--format=csv[,noheader][,nounits]`, and
without any of them a short table. Anything else is an error (exit code 2), never a guess.

The session's `nvidia-smi` runs this file by itself: it imports the standard library alone.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

_MIB = 1 << 20
_NOT_SUPPORTED = 3
_NOT_AVAILABLE = "[N/A]"
_MEMORY_V2 = 0x2000028
_TEMPERATURE_OF_GPU = 0


class _Memory(ctypes.Structure):
    """nvmlMemory_v2_t."""

    _fields_ = [
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class _Pci(ctypes.Structure):
    """nvmlPciInfo_t, version 3."""

    _fields_ = [
        ("short_id", ctypes.c_char * 16),
        *((name, ctypes.c_uint) for name in ("domain", "bus", "device", "ids", "subsystem_ids")),
        ("bus_id", ctypes.c_char * 32),
    ]


class _Utilization(ctypes.Structure):
    """nvmlUtilization_t."""

    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Process(ctypes.Structure):
    """nvmlProcessInfo_t, version 3."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used_bytes", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class Nvml:
    """The library, by its C functions. Ends the program where one fails."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self.call("nvmlInit_v2")

    def call(self, name: str, *arguments: Any) -> bool:
        """False where the GPU does not support it."""
        code: int = getattr(self._library, name)(*arguments)
        if code not in (0, _NOT_SUPPORTED):
            describe = self._library.nvmlErrorString
            describe.restype = ctypes.c_char_p
            print(f"nvidia-smi: {name}: {describe(code).decode()}", file=sys.stderr)
            sys.exit(code)
        return code == 0

    def text(self, name: str, *arguments: Any) -> str:
        text = ctypes.create_string_buffer(96)
        return text.value.decode() if self.call(name, *arguments, text, 96) else _NOT_AVAILABLE

    def number(self, name: str, *arguments: Any) -> int | None:
        number = ctypes.c_uint()
        return number.value if self.call(name, *arguments, ctypes.byref(number)) else None

    def devices(self) -> list[Device]:
        return [Device(self, index) for index in range(self.number("nvmlDeviceGetCount_v2") or 0)]


class Device:
    def __init__(self, nvml: Nvml, index: int) -> None:
        self._nvml = nvml
        self.index = index
        self._handle = ctypes.c_void_p()
        nvml.call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(self._handle))

    def text(self, name: str) -> str:
        return self._nvml.text(name, self._handle)

    def number(self, name: str, *arguments: Any) -> int | None:
        return self._nvml.number(name, self._handle, *arguments)

    def memory_mib(self, part: str) -> int:
        memory = _Memory(version=_MEMORY_V2)
        self._nvml.call("nvmlDeviceGetMemoryInfo_v2", self._handle, ctypes.byref(memory))
        return int(getattr(memory, part)) // _MIB

    def capability(self) -> str:
        major, minor = ctypes.c_int(), ctypes.c_int()
        found = (ctypes.byref(major), ctypes.byref(minor))
        self._nvml.call("nvmlDeviceGetCudaComputeCapability", self._handle, *found)
        return f"{major.value}.{minor.value}"

    def bus_id(self) -> str:
        pci = _Pci()
        self._nvml.call("nvmlDeviceGetPciInfo_v3", self._handle, ctypes.byref(pci))
        return bytes(pci.bus_id).decode()

    def utilization(self, part: str) -> int | None:
        rates = _Utilization()
        name = "nvmlDeviceGetUtilizationRates"
        known = self._nvml.call(name, self._handle, ctypes.byref(rates))
        return int(getattr(rates, part)) if known else None

    def processes(self) -> list[_Process]:
        count, found = ctypes.c_uint(1024), (_Process * 1024)()
        name = "nvmlDeviceGetComputeRunningProcesses_v3"
        self._nvml.call(name, self._handle, ctypes.byref(count), found)
        return list(found[: count.value])


def _watts(milliwatts: int | None) -> str | None:
    return None if milliwatts is None else f"{milliwatts / 1e3:.2f}"


GPU_FIELDS: dict[str, tuple[str, Callable[[Device, Nvml], Any]]] = {
    "index": ("", lambda gpu, _: gpu.index),
    "count": ("", lambda _, nvml: nvml.number("nvmlDeviceGetCount_v2")),
    "name": ("", lambda gpu, _: gpu.text("nvmlDeviceGetName")),
    "uuid": ("", lambda gpu, _: gpu.text("nvmlDeviceGetUUID")),
    "pci.bus_id": ("", lambda gpu, _: gpu.bus_id()),
    "driver_version": ("", lambda _, nvml: nvml.text("nvmlSystemGetDriverVersion")),
    "compute_cap": ("", lambda gpu, _: gpu.capability()),
    "memory.total": ("MiB", lambda gpu, _: gpu.memory_mib("total")),
    "memory.reserved": ("MiB", lambda gpu, _: gpu.memory_mib("reserved")),
    "memory.used": ("MiB", lambda gpu, _: gpu.memory_mib("used")),
    "memory.free": ("MiB", lambda gpu, _: gpu.memory_mib("free")),
    "utilization.gpu": ("%", lambda gpu, _: gpu.utilization("gpu")),
    "utilization.memory": ("%", lambda gpu, _: gpu.utilization("memory")),
    "temperature.gpu": (
        "",
        lambda gpu, _: gpu.number("nvmlDeviceGetTemperature", _TEMPERATURE_OF_GPU),
    ),
    "power.draw": ("W", lambda gpu, _: _watts(gpu.number("nvmlDeviceGetPowerUsage"))),
    "power.limit": ("W", lambda gpu, _: _watts(gpu.number("nvmlDeviceGetEnforcedPowerLimit"))),
}
"""By nvidia-smi's names: a unit, and the value; None is not available."""

APP_FIELDS: dict[str, tuple[str, Callable[[Device, _Process], Any]]] = {
    "pid": ("", lambda _, process: process.pid),
    "gpu_uuid": ("", lambda gpu, _: gpu.text("nvmlDeviceGetUUID")),
    "used_memory": ("MiB", lambda _, process: process.used_bytes // _MIB),
}

_SYNONYMS = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        known = "-L, -i, --query-gpu, --query-compute-apps, --format=csv[,noheader][,nounits]"
        print(f"nvidia-smi of warpserve: {message}; it knows {known}", file=sys.stderr)
        sys.exit(2)


def main(words: Sequence[str]) -> None:
    parser = _Parser(prog="nvidia-smi", allow_abbrev=False, description=__doc__)
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("-L", "--list-gpus", action="store_true")
    asked.add_argument("--query-gpu", metavar="FIELDS")
    asked.add_argument("--query-compute-apps", metavar="FIELDS")
    parser.add_argument("-i", "--id", help="of a GPU: its index, UUID or bus")
    parser.add_argument("--format", metavar="csv[,noheader][,nounits]")
    options = parser.parse_args(words)
    queried = options.query_gpu or options.query_compute_apps
    if bool(queried) != bool(options.format):
        parser.error("a query and --format go together")

    nvml = Nvml()
    devices = _chosen(nvml.devices(), options.id, parser)
    if options.list_gpus:
        _print_list(devices)
    elif options.query_gpu:
        fields = _fields(options.query_gpu, GPU_FIELDS, parser)
        rows = [[value(gpu, nvml) for _, _, value in fields] for gpu in devices]
        _print_table(fields, rows, options.format, parser)
    elif options.query_compute_apps:
        fields = _fields(options.query_compute_apps, APP_FIELDS, parser)
        rows = [
            [value(gpu, process) for _, _, value in fields]
            for gpu in devices
            for process in gpu.processes()
        ]
        _print_table(fields, rows, options.format, parser)
    else:
        _print_short(nvml, devices)


def _chosen(devices: list[Device], wanted: str | None, parser: _Parser) -> list[Device]:
    if wanted is None:
        return devices
    found = [
        gpu
        for gpu in devices
        if wanted in (str(gpu.index), gpu.text("nvmlDeviceGetUUID"), gpu.bus_id())
    ]
    if not found:
        parser.error(f"there is no GPU {wanted}")
    return found


def _fields(names: str, known: dict[str, Any], parser: _Parser) -> list[tuple[str, str, Any]]:
    """Name, unit and value of each."""
    found = []
    for name in (name.strip() for name in names.split(",")):
        field = name if name in known else _SYNONYMS.get(name, name)
        if field not in known:
            parser.error(f"no field {name}, but {', '.join(known)}")
        found.append((name, *known[field]))
    return found


def _print_table(
    fields: list[tuple[str, str, Any]], rows: list[list[Any]], form: str, parser: _Parser
) -> None:
    kind, *without = form.split(",")
    if kind != "csv" or set(without) - {"noheader", "nounits"}:
        parser.error(f"no --format={form}")
    with_units = "nounits" not in without
    if "noheader" not in without:
        print(", ".join(f"{name} [{unit}]" if unit else name for name, unit, _ in fields))
    for row in rows:
        print(", ".join(_cells(row, fields, with_units)))


def _cells(row: list[Any], fields: list[tuple[str, str, Any]], with_units: bool) -> Iterator[str]:
    for value, (_, unit, _) in zip(row, fields, strict=True):
        if value is None:
            yield _NOT_AVAILABLE
        else:
            yield f"{value} {unit}" if unit and with_units else str(value)


def _print_list(devices: list[Device]) -> None:
    for gpu in devices:
        name, uuid = gpu.text("nvmlDeviceGetName"), gpu.text("nvmlDeviceGetUUID")
        print(f"GPU {gpu.index}: {name} (UUID: {uuid})")


def _print_short(nvml: Nvml, devices: list[Device]) -> None:
    print(f"virtual GPUs of warpserve, driver {nvml.text('nvmlSystemGetDriverVersion')}")
    for gpu in devices:
        used, total = gpu.memory_mib("used"), gpu.memory_mib("total")
        print(f"GPU {gpu.index}: {gpu.text('nvmlDeviceGetName')}, {used} MiB of {total} MiB in use")


if __name__ == "__main__":
    main(sys.argv[1:])
