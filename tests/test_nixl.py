"""The stand-in for NIXL (patches/nixl), without an engine."""

from __future__ import annotations

import ctypes
import threading
import uuid
from multiprocessing.connection import Client
from pathlib import Path

import numpy as np
import pytest

from warpserve.patches import network
from warpserve.patches.network import BANDWIDTH
from warpserve.patches.nixl import mailbox
from warpserve.patches.nixl.agent import Agent
from warpserve.patches.nixl.blocks import Blocks, PreparedBlocks
from warpserve.patches.nixl.transfer import CHANGES, Transfer

BLOCKS = [(0, 1_000, 0), (1_000, 1_000, 0), (2_000, 500, 0)]


@pytest.fixture(autouse=True)
def _session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WARPSERVE_SESSION", str(tmp_path))
    monkeypatch.setenv(BANDWIDTH, "0.001")
    network.link_of_process.cache_clear()


def agent() -> Agent:
    return Agent(uuid.uuid4().hex[:8])


def prepared(owner: Agent, name: str) -> PreparedBlocks:
    return owner.prep_xfer_dlist(name, owner.get_xfer_descs(BLOCKS, "VRAM"))


def read(reader: Agent, remote: str, mine: list[int], theirs: list[int]) -> Transfer:
    return reader.make_prepped_xfer(
        "READ", prepared(reader, "NIXL_INIT_AGENT"), mine, prepared(reader, remote), theirs, b"done"
    )


def finished(by: Agent, *transfers: Transfer) -> list[str]:
    for transfer in transfers:
        assert by.transfer(transfer) == "PROC"
    while "PROC" in (states := [by.check_xfer_state(transfer) for transfer in transfers]):
        CHANGES.wait()
    return states


def test_blocks_take_their_bytes_and_the_other_side_hears_of_it() -> None:
    reader, owner = agent(), agent()
    remote = reader.add_remote_agent(owner.get_agent_metadata())
    transfer = read(reader, remote, [0, 2], [1, 2])
    assert finished(reader, transfer) == ["DONE"]
    telemetry = reader.get_xfer_telemetry(transfer)
    assert (telemetry.totalBytes, telemetry.descCount) == (1_500, 2)
    assert telemetry.xferDuration >= 1_500  # us, at 1 MB/s
    assert owner.get_new_notifs() == {reader.name: [b"done"]}
    assert owner.get_new_notifs() == {}


def test_who_waits_misses_no_change() -> None:
    reader, owner = agent(), agent()
    transfers = [read(reader, owner.name, [number % 2], [0]) for number in range(20)]
    assert finished(reader, *transfers) == ["DONE"] * 20


def test_a_change_between_a_look_and_the_wait_ends_the_wait() -> None:
    transfer = Transfer("remote", np.array([1]), b"")
    assert CHANGES.state_of(transfer) == "INIT"
    CHANGES.note(transfer, "DONE")
    assert CHANGES.state_of(Transfer("remote", np.array([1]), b"")) == "INIT"
    waiting = threading.Thread(target=CHANGES.wait)
    CHANGES.wait()
    waiting.start()  # another thread, which has not looked yet
    waiting.join(0.05)
    assert waiting.is_alive()
    CHANGES.note(transfer, "DONE")
    waiting.join()


def test_notifications_come_in_order_and_by_sender() -> None:
    first, second, owner = agent(), agent(), agent()
    for number in range(100):
        first.send_notif(owner.name, notif_msg=b"%d" % number)
    second.send_notif(owner.name, b"zero\0byte")
    assert owner.get_new_notifs() == {
        first.name: [b"%d" % number for number in range(100)],
        second.name: [b"zero\0byte"],
    }


def test_who_wants_to_know_hears_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "_LISTENERS", [])
    sender, owner = agent(), agent()
    heard: list[None] = []
    mailbox.when_notified(lambda: heard.append(None))
    for _ in range(2):
        sender.send_notif(owner.name, b"done")
    assert len(heard) == 2


def test_the_hosts_memory_really_arrives() -> None:
    writer, owner = agent(), agent()
    source, target = ctypes.create_string_buffer(b"sixteen bytes ok"), bytearray(16)
    target_address = ctypes.addressof((ctypes.c_char * 16).from_buffer(target))
    mine, theirs = (
        writer.get_xfer_descs([(address, 16, 0)], "DRAM")
        for address in (ctypes.addressof(source), target_address)
    )
    assert finished(writer, writer.initialize_xfer("WRITE", mine, theirs, owner.name)) == ["DONE"]
    assert bytes(target) == b"sixteen bytes ok"
    with pytest.raises(ValueError, match="READ of the host's memory"):
        writer.initialize_xfer("READ", mine, theirs, owner.name)


def test_runs_of_equal_blocks() -> None:
    runs = np.array([[0, 100, 0, 128, 3], [4_096, 50, 0, 64, 2]], dtype=np.uint64)
    assert Blocks(runs, "VRAM").sizes([0, 2, 3, 4]).tolist() == [100, 100, 50, 50]
    rows = np.array([[0, 100, 0], [100, 7, 0]], dtype=np.uint64)
    assert Blocks(rows, "VRAM").sizes([1, 0]).tolist() == [7, 100]
    assert Blocks(rows, "VRAM").sizes().tolist() == [100, 7]


def test_a_transfer_with_an_agent_that_is_gone_fails() -> None:
    reader = agent()
    assert finished(reader, read(reader, "nobody", [0], [0])) == ["ERR"]
    with pytest.raises(OSError, match="No such file"):
        reader.send_notif("nobody", b"lost")


def test_a_sender_that_dies_in_the_middle_does_not_keep_others_from_being_heard() -> None:
    owner, sender = agent(), agent()
    with Client(mailbox._address(owner.name), "AF_UNIX"):
        pass
    sender.send_notif(owner.name, b"after it")
    assert owner.get_new_notifs() == {sender.name: [b"after it"]}


@pytest.mark.parametrize("said", ["fast", "0", "-1", "nan"])
def test_a_bandwidth_that_is_none_is_an_error_at_once(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BANDWIDTH, said)
    with pytest.raises(ValueError, match=f"{BANDWIDTH}={said}"):
        agent()


def test_both_sides_name_equal_blocks() -> None:
    reader = agent()
    with pytest.raises(ValueError, match="1 blocks of 1000 bytes here, and 1 of 500 at other"):
        read(reader, "other", [0], [2])
