"""Packages that only some uses of vkernels need, and the message where one is missing."""

from __future__ import annotations

from .errors import SetupError

PACKAGES = {
    "jinja2": "jinja2", "plotly": "plotly", "psycopg": "psycopg", "ray": "ray", "scipy": "scipy",
    "sklearn": "scikit-learn", "sqlalchemy": "sqlalchemy", "sympy": "sympy", "torch": "torch",
}  # fmt: skip
"""By the name that is imported, the name that is installed."""
COMPILERS = ("llvmlite", "triton", "xdsl")
"""Packages that compile kernels. An environment that only runs bundles does without."""


def not_installed(error: ModuleNotFoundError) -> Exception:
    """What a call by a user raises for a module that is missing: a `SetupError` by itself, or the error as it is.

    Use as `raise not_installed(error) from None`, so that the user reads one short traceback.
    """
    missing = missing_package(error)
    return error if missing is None else missing


def missing_package(error: ModuleNotFoundError) -> SetupError | None:
    """What to tell a user whose installation lacks an optional package; None for any other module."""
    module = (error.name or "").partition(".")[0]
    if module in COMPILERS:
        return SetupError(
            f"{module} is not installed, and kernels are compiled with it: pip install {' '.join(COMPILERS)}. "
            "Without compilers, kernels run from bundles: vk.load"
        )
    package = PACKAGES.get(module)
    if package is None:
        return None
    return SetupError(f"{package} is not installed, and this needs it: pip install {package}, or 'vkernels[all]'")
