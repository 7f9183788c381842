"""Compare the finalists of slices that are alike to a measurement in one go, once every slice has found its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition

from .measure import Candidate, Outcome

Run = Callable[[list[Candidate]], list[Outcome]]


@dataclass(eq=False)
class _Round:
    """A comparison of several slices; without outcomes where it failed for the slice that ran it."""

    candidates: dict[Hashable, Candidate] = field(default_factory=dict)
    found: Future[dict[Hashable, Outcome] | None] = field(default_factory=Future)


class SharedFinals:
    """What slices at work wait for before their finalists are timed: that all have named theirs or have ended. So again
    for every comparison that follows, by those slices that fight on.

    Most finalists are several slices' own, and are then timed once; the rest are compared with more rivals. For
    several threads.
    """

    def __init__(self, slices: Sequence[str]):
        self._at_work, self._awaited = set(slices), set(slices)
        self._fought: set[str] = set()
        self._asked: dict[str, Sequence[Candidate]] = {}
        self._round = _Round()
        self._changed = Condition()
        self._given_up = False

    def leave(self, slice: str) -> None:
        """A slice has ended, with or without finalists."""
        with self._changed:
            self._at_work.discard(slice)
            self._awaited.discard(slice)
            self._changed.notify_all()

    def search_on(self, slice: str) -> None:
        """A slice measures something by itself: after a comparison nobody waits for it, until it asks again."""
        with self._changed:
            if slice in self._fought:
                self._awaited.discard(slice)
                self._changed.notify_all()

    def give_up(self) -> None:
        """Nobody waits any more: comparisons not begun yet are each slice's own, which refuses them."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()

    def paired_comparison(self, slice: str, candidates: Sequence[Candidate], run: Run) -> list[Outcome]:
        """A slice's finalists, timed by `run` in turns with those of the others. Raises what `run` raises."""
        joined = self._join(slice, candidates)
        if joined is None:
            return run(list(candidates))
        one, is_mine = joined
        if is_mine:
            self._run(one, run)
        outcomes = one.found.result()
        return run(list(candidates)) if outcomes is None else [outcomes[each.key] for each in candidates]

    def _join(self, slice: str, candidates: Sequence[Candidate]) -> tuple[_Round, bool] | None:
        """The round in which a slice fights, and whether it is to run it; None for one of its own."""
        with self._changed:
            if self._given_up or slice not in self._at_work:
                return None
            one = self._round
            self._asked[slice] = candidates
            self._awaited.add(slice)
            self._fought.add(slice)
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._given_up or one is not self._round or self._awaited <= self._asked.keys()
            )
            if one is not self._round:
                return one, False
            if self._given_up:
                return None
            one.candidates = {each.key: each for some in self._asked.values() for each in some}
            self._asked, self._round = {}, _Round()
            self._changed.notify_all()
            return one, True

    def _run(self, one: _Round, run: Run) -> None:
        try:
            outcomes = run(list(one.candidates.values()))
            one.found.set_result(dict(zip(one.candidates, outcomes, strict=True)))
        except BaseException:
            one.found.set_result(None)  # whoever waits for it tries its own
            raise
