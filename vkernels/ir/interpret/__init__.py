"""The interpreter: what vk IR means, executed in NumPy."""

from .interpret import Argument, interpret

__all__ = ["Argument", "interpret"]
