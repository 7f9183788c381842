"""Finalists of slices that are the same to a measurement: timed in one duel, once every slice has found its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from threading import Condition

from .measure import Candidate, Outcome

Run = Callable[[list[Candidate]], list[Outcome]]


class SharedFinals:
    """What slices at work wait for before their finalists are timed: that all have named theirs or have ended.

    Most finalists are several slices' own, and are then timed once; the rest are compared with more rivals. For
    several threads.
    """

    def __init__(self, slices: Sequence[str]):
        self._searching = set(slices)
        self._asked: dict[Hashable, Candidate] = {}
        self._found: Future[dict[Hashable, Outcome] | None] | None = None
        self._changed = Condition()
        self._given_up = False

    def leave(self, slice: str) -> None:
        """A slice has ended, with or without finalists."""
        with self._changed:
            self._searching.discard(slice)
            self._changed.notify_all()

    def give_up(self) -> None:
        """Nobody waits any more: duels not begun yet are each slice's own, which refuses them."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()

    def duel(self, slice: str, candidates: Sequence[Candidate], run: Run) -> list[Outcome]:
        """A slice's finalists, timed by `run` in turns with those of the others. Raises what `run` raises."""
        with self._changed:
            if self._found is not None or slice not in self._searching:
                found, mine = None, False
            else:
                self._asked |= {candidate.key: candidate for candidate in candidates}
                self._searching.discard(slice)
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._given_up or not self._searching)
                mine = self._found is None and not self._given_up
                found = self._found = Future() if mine else self._found
        if found is None:
            return run(list(candidates))
        if mine:
            self._run(found, run)
        outcomes = found.result()
        return run(list(candidates)) if outcomes is None else [outcomes[each.key] for each in candidates]

    def _run(self, found: Future[dict[Hashable, Outcome] | None], run: Run) -> None:
        try:
            outcomes = run(list(self._asked.values()))
            found.set_result(dict(zip(self._asked, outcomes, strict=True)))
        except BaseException:
            found.set_result(None)  # whoever waits for it tries its own
            raise
