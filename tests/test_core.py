"""The core, driven at random, agrees with its specification written in the plainest Python."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from warpserve.native._native import (
    ActorKind,
    ActorPlace,
    Blocker,
    ClockMode,
    Core,
    CoreStatus,
    GuardKind,
)

NEVER_NS = 2**63 - 1
# Mostly small, so that targets tie and pass; now and then at the ends of what the clock holds.
TIMES_NS = st.one_of(st.integers(-5, 30), st.sampled_from([-(2**63), NEVER_NS - 1, NEVER_NS]))


@dataclass
class Actor:
    member: int
    kind: ActorKind
    place: ActorPlace
    order: int
    target_ns: int | None = None


@dataclass
class Specification:
    """What core.hpp promises, looked up afresh for each question."""

    mode: ClockMode
    guard: GuardKind
    now_ns: int = 0
    members: set[int] = field(default_factory=set)
    actors: dict[int, Actor] = field(default_factory=dict)
    holds: dict[int, int] = field(default_factory=dict)

    def queue(self) -> list[tuple[int, int, int]]:
        """Who waits: (target, order, id), in the order of waking."""
        return sorted(
            (actor.target_ns, actor.order, name)
            for name, actor in self.actors.items()
            if actor.target_ns is not None
        )

    def blocker(self, settled: bool) -> Blocker:
        queue = self.queue()
        if not queue or queue[0][0] == NEVER_NS:
            return Blocker.NO_TARGET
        if self.mode != ClockMode.EXACT and queue[0][0] <= self.now_ns:
            return Blocker.NOTHING
        if self.mode == ClockMode.SLEEP:
            return Blocker.HOST_TIME
        if self.guard == GuardKind.SETTLE and not settled:
            return Blocker.NOT_SETTLED
        if self.holds:
            return Blocker.HELD
        actors = [a for a in self.actors.values() if a.kind == ActorKind.ACTOR]
        if self.guard == GuardKind.SETTLE:
            awaited = [a for a in actors if a.place == ActorPlace.REMOTE]
        elif actors:
            awaited = actors
        else:
            return Blocker.ACTOR_WITHOUT_TARGET
        if any(a.target_ns is None for a in awaited):
            return Blocker.ACTOR_WITHOUT_TARGET
        return Blocker.NOTHING

    def advance(self, settled: bool) -> tuple[int, list[int]] | None:
        if self.blocker(settled) != Blocker.NOTHING:
            return None
        queue = self.queue()
        self.now_ns = max(self.now_ns, queue[0][0])
        due = [name for target_ns, _, name in queue if target_ns <= self.now_ns]
        woken = due if self.guard == GuardKind.BARRIER else due[:1]
        for name in woken:
            self.actors[name].target_ns = None
        return self.now_ns, woken


class CoreAgainstSpecification(RuleBasedStateMachine):
    members = Bundle("members")
    actors = Bundle("actors")
    holds = Bundle("holds")

    @initialize(
        target=actors,
        mode=st.sampled_from(list(ClockMode)),
        guard=st.sampled_from(list(GuardKind)),
        places=st.lists(st.sampled_from(list(ActorPlace)), min_size=2, max_size=4),
    )
    def start(
        self, mode: ClockMode, guard: GuardKind, places: list[ActorPlace]
    ) -> MultipleResults[int]:
        """One member with a few actors stays; those of the rules come and go."""
        self.core = Core(mode, guard)
        self.spec = Specification(mode, guard)
        member = self.add_member_to_both()
        return multiple(
            *(self.add_actor_to_both(member, ActorKind.ACTOR, place, 0) for place in places)
        )

    def add_member_to_both(self) -> int:
        member: int = self.core.add_member("member")
        assert member not in self.spec.members
        self.spec.members.add(member)
        return member

    def add_actor_to_both(self, member: int, kind: ActorKind, place: ActorPlace, order: int) -> int:
        actor: int | None = self.core.add_actor(member, "actor", kind, place, order)
        if member not in self.spec.members:
            assert actor is None
            return 0  # an id that no actor ever has
        assert actor is not None
        assert actor not in self.spec.actors
        self.spec.actors[actor] = Actor(member, kind, place, order)
        return actor

    @rule(target=members)
    def add_member(self) -> int:
        return self.add_member_to_both()

    @rule(member=members)
    def remove_member(self, member: int) -> None:
        of_member = {n: a for n, a in self.spec.actors.items() if a.member == member}
        were_waiting = sorted(n for n, a in of_member.items() if a.target_ns is not None)
        assert self.core.remove_member(member) == were_waiting
        self.spec.members.discard(member)
        for name in of_member:
            del self.spec.actors[name]
        self.spec.holds = {h: m for h, m in self.spec.holds.items() if m != member}

    @rule(
        target=actors,
        member=members,
        kind=st.sampled_from(list(ActorKind)),
        place=st.sampled_from(list(ActorPlace)),
        order=st.sampled_from([0, 1, 2**64 - 1]),
    )
    def add_actor(self, member: int, kind: ActorKind, place: ActorPlace, order: int) -> int:
        return self.add_actor_to_both(member, kind, place, order)

    @rule(actor=consumes(actors))
    def remove_actor(self, actor: int) -> None:
        known = self.spec.actors.pop(actor, None) is not None
        assert self.core.remove_actor(actor) == (
            CoreStatus.OK if known else CoreStatus.UNKNOWN_ACTOR
        )

    @rule(actor=actors, target_ns=TIMES_NS)
    def wait_until(self, actor: int, target_ns: int) -> None:
        status = self.core.wait_until(actor, target_ns)
        known = self.spec.actors.get(actor)
        if known is None:
            assert status == CoreStatus.UNKNOWN_ACTOR
        elif known.target_ns is not None:
            assert status == CoreStatus.ALREADY_WAITING
        else:
            assert status == CoreStatus.OK
            known.target_ns = target_ns

    @rule(actor=actors)
    def cancel(self, actor: int) -> None:
        status = self.core.cancel(actor)
        known = self.spec.actors.get(actor)
        if known is None:
            assert status == CoreStatus.UNKNOWN_ACTOR
        elif known.target_ns is None:
            assert status == CoreStatus.NOT_WAITING
        else:
            assert status == CoreStatus.OK
            known.target_ns = None

    @rule(target=holds, member=members)
    def add_hold(self, member: int) -> int:
        hold: int | None = self.core.add_hold(member)
        if member not in self.spec.members:
            assert hold is None
            return 0  # an id that no hold ever has
        assert hold is not None
        self.spec.holds[hold] = member
        return hold

    @rule(hold=holds)
    def release(self, hold: int) -> None:
        known = self.spec.holds.pop(hold, None) is not None
        assert self.core.release(hold) == (CoreStatus.OK if known else CoreStatus.UNKNOWN_HOLD)

    @rule(now_ns=st.integers(-5, 30))
    def carry(self, now_ns: int) -> None:
        self.core.carry(now_ns)
        if self.spec.mode != ClockMode.EXACT:
            self.spec.now_ns = max(self.spec.now_ns, now_ns)

    @rule(settled=st.booleans())
    def advance(self, settled: bool) -> None:
        expected = self.spec.advance(settled)
        assert self.core.advance(settled) == expected

    @rule(targets_ns=st.lists(st.integers(-5, 30), min_size=1, max_size=4))
    def let_time_run(self, targets_ns: list[int]) -> None:
        """Nothing is held, everybody waits, and all are woken as far as the mode allows."""
        for hold in list(self.spec.holds):
            self.release(hold)
        for index, (name, actor) in enumerate(self.spec.actors.items()):
            if actor.target_ns is None:
                self.wait_until(name, targets_ns[index % len(targets_ns)])
        while self.spec.blocker(settled=True) == Blocker.NOTHING:
            self.advance(settled=True)

    @invariant()
    def answers_agree(self) -> None:
        assert self.core.now_ns == self.spec.now_ns
        assert self.core.waiting == len(self.spec.queue())
        for settled in (False, True):
            assert self.core.blocker(settled) == self.spec.blocker(settled)
        for name, actor in self.spec.actors.items():
            assert self.core.target_ns(name) == actor.target_ns


CoreAgainstSpecification.TestCase.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None
)
TestCoreAgainstSpecification = CoreAgainstSpecification.TestCase
