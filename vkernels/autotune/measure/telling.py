"""What a candidate raises, told as its failure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vkernels.ir.errors import ArgumentError, Error, OutOfMemoryError, PlanError
from vkernels.ir.planning.shortage import ShortError

from .outcomes import Failed, Reason
from .subject import WrongAnswerError


class Told:
    """`failure`: what was raised."""

    failure: Failed


@contextmanager
def telling(otherwise: Reason) -> Iterator[Told]:
    """Take what a candidate raises for its failure."""
    told = Told()
    try:
        yield told
    except WrongAnswerError as error:
        told.failure = Failed(Reason.WRONG_ANSWER, str(error))
    except (ShortError, OutOfMemoryError, MemoryError) as error:
        told.failure = Failed(Reason.DOES_NOT_FIT, str(error) or "there is not enough memory")
    except (PlanError, ArgumentError) as error:
        told.failure = Failed(Reason.REFUSED, str(error))
    except Exception as error:
        name = "" if isinstance(error, Error) else f"{type(error).__name__}: "
        told.failure = Failed(otherwise, f"{name}{error}"[:2000])
