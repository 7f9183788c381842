"""What tuning needs of what measures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from .outcomes import Candidate, Failed, Outcome

CANDIDATE_SECONDS = 60.0
"""Seconds that a candidate may take to be compiled, checked and timed, unless told otherwise."""


class Measures(ABC):
    """Measures candidates of one task on one slice."""

    @abstractmethod
    def measure(self, candidate: Candidate, timeout: float = CANDIDATE_SECONDS) -> Outcome:
        """What comes of a candidate, within so many seconds."""

    @abstractmethod
    def paired_comparison(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        """Times of finalists, taken in turns."""

    @property
    def at_once(self) -> int:
        """For how many candidates together `prepare` saves time: 1 where it does not."""
        return 1

    def prepare(self, candidates: Sequence[Candidate], timeout: float = CANDIDATE_SECONDS) -> list[Failed | None]:
        """Do at once for some candidates what can be done before they are measured one after another. What is wrong
        with those that need not be measured any more."""
        return [None] * len(candidates)

    def shared_outcomes(self) -> list[tuple[Candidate, Outcome]]:
        """What others measured that are alike, since this was asked last."""
        return []

    def renew_inputs(self) -> None:  # noqa: B027 (not all have more than one place)
        """Have what follows measured on other arguments, elsewhere in memory: times hang on where that is."""
