"""The resources that a compiled kernel uses, read from its binary."""

from .mix import InstructionMix
from .read import Resources, read_resources, read_taken, taken_by

__all__ = ["InstructionMix", "Resources", "read_resources", "read_taken", "taken_by"]
