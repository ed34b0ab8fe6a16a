"""The stand-in for NIXL (patches/nixl), without an engine."""

from __future__ import annotations

import time
import uuid

import pytest

from warpserve.patches import network
from warpserve.patches.network import BANDWIDTH
from warpserve.patches.nixl.agent import Agent, DescriptorList, Transfer

BLOCKS = [(0, 1_000, 0), (1_000, 1_000, 0), (2_000, 500, 0)]


@pytest.fixture(autouse=True)
def _link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BANDWIDTH, "0.001")
    network.link_of_process.cache_clear()


def agent() -> Agent:
    return Agent(str(uuid.uuid4()))


def prepared(owner: Agent, name: str) -> DescriptorList:
    return owner.prep_xfer_dlist(name, owner.get_xfer_descs(BLOCKS, "VRAM"))


def read(reader: Agent, remote: str, mine: list[int], theirs: list[int]) -> Transfer:
    return reader.make_prepped_xfer(
        "READ", prepared(reader, "NIXL_INIT_AGENT"), mine, prepared(reader, remote), theirs, b"done"
    )


def finished(reader: Agent, transfer: Transfer) -> str:
    assert reader.transfer(transfer) == "PROC"
    give_up_s = time.monotonic() + 10
    while reader.check_xfer_state(transfer) == "PROC":
        assert time.monotonic() < give_up_s
        time.sleep(0.001)
    return reader.check_xfer_state(transfer)


def received(by: Agent) -> dict[str, list[bytes]]:
    give_up_s = time.monotonic() + 10
    while not (found := by.get_new_notifs()):
        assert time.monotonic() < give_up_s
        time.sleep(0.001)
    return found


def test_blocks_take_their_bytes_and_the_other_side_hears_of_it() -> None:
    reader, owner = agent(), agent()
    remote = reader.add_remote_agent(owner.get_agent_metadata())
    transfer = read(reader, remote, [0, 2], [1, 2])
    assert finished(reader, transfer) == "DONE"
    telemetry = reader.get_xfer_telemetry(transfer)
    assert (telemetry.totalBytes, telemetry.descCount) == (1_500, 2)
    assert telemetry.xferDuration >= 1_500  # us, at 1 MB/s
    assert received(owner) == {reader.name: [b"done"]}
    assert owner.get_new_notifs() == {}


def test_notifications_come_in_order_and_by_sender() -> None:
    first, second, owner = agent(), agent(), agent()
    for number in range(100):  # more than a socket holds
        first.send_notif(owner.name, notif_msg=b"%d" % number)
    second.send_notif(owner.name, b"zero\0byte")
    found: dict[str, list[bytes]] = {}
    while sum(map(len, found.values())) < 101:
        for sender, messages in received(owner).items():
            found.setdefault(sender, []).extend(messages)
    assert found[first.name] == [b"%d" % number for number in range(100)]
    assert found[second.name] == [b"zero\0byte"]


def test_a_transfer_with_an_agent_that_is_gone_fails() -> None:
    reader = agent()
    assert finished(reader, read(reader, "nobody", [0], [0])) == "ERR"
    with pytest.raises(OSError, match="refused"):
        reader.send_notif("nobody", b"lost")


def test_both_sides_name_equal_blocks() -> None:
    reader = agent()
    with pytest.raises(ValueError, match="1 blocks of 1000 bytes here, and 1 of 500 at other"):
        read(reader, "other", [0], [2])
