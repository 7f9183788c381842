"""Machines of a Ray cluster as the head sees them: slots from what they offer, turns as calls of actors."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from vkernels.ir.errors import Error

from .cluster import Lost, slots_of
from .queue import Slot, Turn
from .ray_worker import SliceActor, offers_in
from .records import Answer, Offer, decoded, encoded

_log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Seconds between two looks at the list of machines."""
DOUBT_SECONDS = 12.0
"""How long no turn begins on a machine that lost one: Ray takes about as long to see that it is gone."""
LEAVE_SECONDS = 5.0
PREFIX = "vkernels_"

_Actor = ray.remote(SliceActor)


@dataclass
class RayCluster:
    """Ray's machines with resources of ours. For one thread, but for `slots` and `cancel`."""

    _machines: dict[str, Any] = field(default_factory=dict)
    _asked: dict[str, Any] = field(default_factory=dict)
    _offers: dict[str, list[Offer]] = field(default_factory=dict)
    _slots: tuple[Slot, ...] = ()
    _actors: dict[str, Any] = field(default_factory=dict)
    _calls: dict[Any, Turn] = field(default_factory=dict)
    _doubted: dict[str, float] = field(default_factory=dict)
    _look_at: float = 0.0

    def slots(self) -> Sequence[Slot]:
        """The slots of machines that are there and not in doubt."""
        return self._slots

    def begin(self, turn: Turn) -> None:
        """Start a turn."""
        slot = turn.slot
        if slot.id not in self._actors:
            self._actors[slot.id] = _actor(slot.node, {slot.offer.resource: 1}, slot.cores)
        self._calls[self._actors[slot.id].run.remote(encoded(turn.request))] = turn

    def answers(self) -> list[tuple[str, Answer | Lost]]:
        """Turns that have ended; also looks for machines that came or went."""
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_SECONDS
            self._look()
        ready = ray.wait(list(self._calls), num_returns=len(self._calls), timeout=0)[0] if self._calls else []
        return [(self._calls[call].id, self._answer(call, self._calls.pop(call))) for call in ready]

    def cancel(self, turn: str) -> None:
        """End a turn early."""
        for running in list(self._calls.values()):
            if running.id == turn and (actor := self._actors.get(running.slot.id)) is not None:
                actor.cancel.remote()

    def release(self, node: str) -> None:
        """Let a machine leave."""
        if (machine := self._machines.get(node)) is not None:
            machine.leave.remote()
        self._offers.pop(node, None)
        self._refresh()

    def close(self, leave: bool) -> None:
        """End all actors; with `leave` the machines leave too."""
        if leave:
            left = [actor.leave.remote() for actor in self._machines.values()]
            if left:
                ray.wait(left, num_returns=len(left), timeout=LEAVE_SECONDS)
        for actor in [*self._actors.values(), *self._machines.values()]:
            ray.kill(actor)

    def _answer(self, call: Any, turn: Turn) -> Answer | Lost:
        try:
            answer: Answer = decoded(ray.get(call, timeout=LEAVE_SECONDS), Answer, "an answer")
            return answer
        except (RayTaskError, Error) as error:
            return Answer(error=str(error)[:2000], kind="ended")
        except RayError as error:
            if isinstance(error, RayActorError):
                self._actors.pop(turn.slot.id, None)
            self._doubted[turn.slot.node] = time.monotonic() + DOUBT_SECONDS
            self._refresh()
            return Lost(" ".join(str(error).split())[:300])

    def _look(self) -> None:
        """See which machines are there, and ask new ones for what they offer."""
        alive = {each["NodeID"]: each for each in ray.nodes() if each["Alive"] and _is_ours(each)}
        for node in alive.keys() - self._machines.keys():
            self._machines[node] = _actor(node, {}, ())
            self._asked[node] = self._machines[node].offers.remote()
        for node in self._machines.keys() - alive.keys():
            for known in (self._machines, self._asked, self._offers, self._doubted):
                known.pop(node, None)
            self._actors = {slot: actor for slot, actor in self._actors.items() if not slot.startswith(node)}
        for node, call in list(self._asked.items()):
            if not ray.wait([call], timeout=0)[0]:
                continue
            del self._asked[node]
            try:
                self._offers[node] = offers_in(ray.get(call, timeout=LEAVE_SECONDS))
            except (RayError, GetTimeoutError, Error) as error:
                _log.warning("machine %s offers nothing: %s", node, error)
        self._refresh()

    def _refresh(self) -> None:
        now = time.monotonic()
        sure = {node: offers for node, offers in self._offers.items() if self._doubted.get(node, 0.0) <= now}
        self._slots = tuple(slots_of(sure))


def _actor(node: str, resources: dict[str, float], cores: Sequence[int]) -> Any:
    options = _Actor.options(
        num_cpus=0, resources=resources, max_concurrency=2, max_restarts=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
    )  # fmt: skip
    return options.remote(cores)


def _is_ours(node: Mapping[str, Any]) -> bool:
    return any(name.startswith(PREFIX) for name in node["Resources"])
