"""The processes of an engine, forked from one that has imported it.

Engines start their processes afresh ("spawn"), and each imports the engine again: ten seconds of a
core and half a gigabyte. Here a *fork server* stands by, a fork of the process that called
`stand_by` with all that it had imported, and the processes are forks of it. They get what a fresh
one gets: their arguments, pickled; the environment as it is when they start; no descriptors but
those meant for them. It is multiprocessing's own, which would import everything anew, too.

A process whose environment has changed since then is started afresh: modules may have read it while
they were imported. Some that do are told instead.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Mapping
from functools import wraps
from multiprocessing import (
    connection,
    context,
    forkserver,
    popen_forkserver,
    resource_tracker,
    spawn,
)
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from warpserve.patches.imported import Action
from warpserve.patches.versions import require_attributes

_STATE = forkserver._forkserver
_ENVIRONMENT = "warpserve_environment"
_READ_WHEN_USED = ("CUDA_VISIBLE_DEVICES", "TRITON_", "WARPSERVE_")
"""Beginnings of the names of variables that no module reads while it is imported."""
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_NAME = b"fork server"
_PARENT_DIED = signal.SIGUSR2
_FOR_PARENT = signal.SIGQUIT
"""SGLang's processes send it to their parent when they fail."""
_IGNORED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""They may reach a whole process group. Who ends in order still wants to hear how others ended."""


def stand_by(modules: Iterable[str] = ()) -> None:
    """Lets what this process spawns be forked, from a process as this one is now.

    ``modules``: imported in the fork server, too. Does nothing where it was called before, and
    where other threads run, since they would be missing there. Raises RuntimeError where Python
    lacks a symbol.
    """
    require_attributes(_STATE, ("_forkserver_address", "_forkserver_alive_fd", "ensure_running"))
    require_attributes(spawn, ("prepare", "get_preparation_data"))
    require_attributes(context.SpawnProcess, ("_Popen",))
    if vars(_STATE)["_forkserver_address"] is not None or threading.active_count() > 1:
        return
    _fork_instead(dict(os.environ))
    resource_tracker.ensure_running()
    address = connection.arbitrary_address("AF_UNIX")  # type: ignore[attr-defined]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        pid, ends_with_users = _fork_server(listener, tuple(modules))
    vars(_STATE).update(
        _forkserver_address=address, _forkserver_alive_fd=ends_with_users, _forkserver_pid=pid
    )


def stand_by_before(owner: str, function: str, modules: Iterable[str] = ()) -> Action:
    """For `after_import`: `stand_by` before each call of a static method of the module."""

    def patch(module: ModuleType) -> None:
        require_attributes(module, (owner,))
        owning_class = getattr(module, owner)
        require_attributes(owning_class, (function,))
        original = getattr(owning_class, function)

        @wraps(original)
        def call(*arguments: Any, **options: Any) -> Any:
            stand_by(modules)
            return original(*arguments, **options)

        setattr(owning_class, function, staticmethod(call))

    return patch


def stand_by_after(function: str) -> Action:
    """Likewise, after each call of a function of the module."""

    def patch(module: ModuleType) -> None:
        require_attributes(module, (function,))
        original = getattr(module, function)

        @wraps(original)
        def call(*arguments: Any, **options: Any) -> Any:
            result = original(*arguments, **options)
            stand_by()
            return result

        setattr(module, function, call)

    return patch


def _fork_instead(known: Mapping[str, str]) -> None:
    """Of processes whose environment is as ``known``, in this process and in those to come."""
    get_preparation_data, prepare = spawn.get_preparation_data, spawn.prepare
    start_afresh = context.SpawnProcess._Popen

    def get_data(name: str) -> dict[str, Any]:
        return {**get_preparation_data(name), _ENVIRONMENT: dict(os.environ)}

    def prepare_forked(data: dict[str, Any]) -> None:
        _become_as_if_spawned(data.pop(_ENVIRONMENT))
        prepare(data)

    def start(process: Any) -> Any:
        if _has_changed(known):
            return start_afresh(process)
        return popen_forkserver.Popen(process)

    vars(spawn).update(get_preparation_data=get_data, prepare=prepare_forked)
    setattr(context.SpawnProcess, "_Popen", staticmethod(start))  # noqa: B010  mypy knows a method
    # In a process that it has forked, multiprocessing would start another one.
    vars(_STATE)["ensure_running"] = resource_tracker.ensure_running


def _has_changed(known: Mapping[str, str]) -> bool:
    names = {*known, *os.environ}
    return any(
        known.get(name) != os.environ.get(name)
        for name in names
        if name not in _TOLD and not name.startswith(_READ_WHEN_USED)
    )


def _become_as_if_spawned(environment: Mapping[str, str]) -> None:
    for number in (_PARENT_DIED, _FOR_PARENT, *_IGNORED):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _set_name(os.fsencode(Path(sys.executable).name))
    changed = [name for name in _TOLD if os.environ.get(name) != environment.get(name)]
    _change_environment(environment)
    for name in changed:
        _TOLD[name]()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda._is_in_bad_fork():
        _begin_anew_on_gpus(torch)


def _begin_anew_on_gpus(torch: ModuleType) -> None:
    """Where their properties are all that was asked for before. Else torch refuses to go on."""
    if ctypes.CDLL(None).ws_gpu_begin_anew() == 0:
        torch.cuda._is_in_bad_fork = lambda: False


def _tell_torch() -> None:
    torch, threads = sys.modules.get("torch"), os.environ.get(_THREADS)
    if torch is not None and threads is not None:
        torch.set_num_threads(int(threads))


def _tell_prometheus() -> None:
    """Its client library: metrics of several processes are kept in files."""
    values = sys.modules.get("prometheus_client.values")
    if values is None:
        return
    from prometheus_client import REGISTRY, metrics

    vars(values)["ValueClass"] = values.get_value_class()
    for collector in list(REGISTRY._collector_to_names):
        if not isinstance(collector, metrics.MetricWrapperBase):
            continue
        if collector._is_observable():
            collector._metric_init()
        else:
            collector._metrics.clear()


_THREADS = "OMP_NUM_THREADS"
_TOLD = {_THREADS: _tell_torch, "PROMETHEUS_MULTIPROC_DIR": _tell_prometheus}
"""Variables that modules read while they are imported, and how these are told of another value."""


def _change_environment(wanted: Mapping[str, str]) -> None:
    """Leaves alone what is as wanted: an emptied environment cannot be given a process's title."""
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _fork_server(listener: socket.socket, modules: tuple[str, ...]) -> tuple[int, int]:
    """Its pid, and a descriptor that all who use it have: at the end of the last one it ends."""
    awaits_end, ends_with_users = os.pipe()
    parent = os.getpid()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED)
    pid = os.fork()
    if pid == 0:
        _handle_signals(parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, masked)
    if pid == 0:
        os.close(ends_with_users)
        _serve(listener.detach(), awaits_end, modules)
    os.close(awaits_end)
    return pid, ends_with_users


def _serve(listener: int, awaits_end: int, modules: tuple[str, ...]) -> NoReturn:
    code = 1
    try:
        for module in modules:
            _import(module)
        gc.collect()
        gc.freeze()
        forkserver.main(listener, awaits_end, preload=[])
    except SystemExit:
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _handle_signals(parent: int) -> None:
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(_FOR_PARENT, lambda number, _: os.kill(parent, number))
    signal.signal(_PARENT_DIED, lambda *_: os._exit(0))
    _set_name(_NAME)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _PARENT_DIED)
    if os.getppid() != parent:
        os._exit(0)


def _set_name(name: bytes) -> None:
    """As `ps` and `warpserve status` show a process that gives itself no title."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name)


def _import(module: str) -> None:
    """What goes wrong is said by the process that needs it."""
    try:
        importlib.import_module(module)
    except Exception:
        return
