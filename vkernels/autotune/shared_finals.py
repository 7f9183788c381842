"""Comparisons of finalists that equal slices share: each is timed once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition
from typing import Generic, TypeVar

from .measure import BySetting, Candidate, Outcome

Compared = TypeVar("Compared", Outcome, BySetting)
Run = Callable[[list[Candidate]], list[Compared]]


@dataclass(eq=False)
class _Round(Generic[Compared]):
    """A comparison for several slices. `found`: None if it failed for the slice that ran it."""

    candidates: dict[Hashable, Candidate] = field(default_factory=dict)
    found: Future[dict[Hashable, Compared] | None] = field(default_factory=Future)


class SharedFinals(Generic[Compared]):
    """Combines the comparisons of finalists of equal slices, which wait until all have finalists or have ended.

    The same holds for every later comparison, among the slices that still compare. Most finalists belong to several
    slices, and are timed only once. For several threads.
    """

    def __init__(self, slices: Sequence[str]):
        self._at_work, self._awaited = set(slices), set(slices)
        self._compared: set[str] = set()
        self._asked: dict[str, Sequence[Candidate]] = {}
        self._round: _Round[Compared] = _Round()
        self._changed = Condition()
        self._given_up = False

    def leave(self, slice: str) -> None:
        """A slice has ended."""
        with self._changed:
            self._at_work.discard(slice)
            self._awaited.discard(slice)
            self._changed.notify_all()

    def search_on(self, slice: str) -> None:
        """A slice searches again after a comparison: nobody waits for it until it compares again."""
        with self._changed:
            if slice in self._compared:
                self._awaited.discard(slice)
                self._changed.notify_all()

    def give_up(self) -> None:
        """End all waiting: slices whose comparison has not begun compare alone, and are then interrupted."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()

    def paired_comparison(
        self, slice: str, candidates: Sequence[Candidate], run: Run[Compared]
    ) -> list[Compared]:  # fmt: skip
        """Time a slice's finalists with `run`, together with those of other slices. Raises what `run` raises."""
        joined = self._join(slice, candidates)
        if joined is None:
            return run(list(candidates))
        one, is_mine = joined
        if is_mine:
            self._run(one, run)
        outcomes = one.found.result()
        return run(list(candidates)) if outcomes is None else [outcomes[each.key] for each in candidates]

    def _join(self, slice: str, candidates: Sequence[Candidate]) -> tuple[_Round[Compared], bool] | None:
        """The round of a slice, and whether the slice has to run it; None to compare alone."""
        with self._changed:
            if self._given_up or slice not in self._at_work:
                return None
            one = self._round
            self._asked[slice] = candidates
            self._awaited.add(slice)
            self._compared.add(slice)
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._given_up or one is not self._round or self._awaited <= self._asked.keys()
            )
            if one is not self._round:
                return one, False
            if self._given_up:
                return None
            one.candidates = {each.key: each for some in self._asked.values() for each in some}
            self._asked, self._round = {}, _Round[Compared]()
            self._changed.notify_all()
            return one, True

    def _run(self, one: _Round[Compared], run: Run[Compared]) -> None:
        try:
            outcomes = run(list(one.candidates.values()))
            one.found.set_result(dict(zip(one.candidates, outcomes, strict=True)))
        except BaseException:
            one.found.set_result(None)  # the others compare alone
            raise
