"""What a candidate raises, told as its failure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vkernels.ir.errors import ArgumentError, Error, OutOfMemoryError, PlanError
from vkernels.ir.planning.resources import OutOfResources

from .outcomes import Failed, FailureReason
from .subject import WrongAnswerError


class FailureReport:
    """`failure`: what was raised."""

    failure: Failed


@contextmanager
def classified(otherwise: FailureReason) -> Iterator[FailureReport]:
    """Take what a candidate raises for its failure."""
    told = FailureReport()
    try:
        yield told
    except WrongAnswerError as error:
        told.failure = Failed(FailureReason.WRONG_ANSWER, str(error))
    except (OutOfResources, OutOfMemoryError, MemoryError) as error:
        told.failure = Failed(FailureReason.DOES_NOT_FIT, str(error) or "there is not enough memory")
    except (PlanError, ArgumentError) as error:
        told.failure = Failed(FailureReason.REFUSED, str(error))
    except Exception as error:
        name = "" if isinstance(error, Error) else f"{type(error).__name__}: "
        told.failure = Failed(otherwise, f"{name}{error}"[:2000])
