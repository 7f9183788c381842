"""What shells complete beside commands and options: kernels of the library, and targets."""

from __future__ import annotations


def kernels(incomplete: str) -> list[str]:
    """Kernels and families whose names begin so; without any, the shell completes names of files."""
    from vkernels.library.catalogue import names

    return [name for name in ("all", *names()) if name.startswith(incomplete)]


def targets(incomplete: str) -> list[str]:
    """Targets that the part after the last comma begins, with what stands before it."""
    from vkernels.targets import known_targets

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in ("cpu", *known_targets()) if name.startswith(last)]
