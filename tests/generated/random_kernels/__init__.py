"""Random small kernels, run in every way that a kernel can run, which must all give the same.

`generate` makes a kernel and its arguments from a seed, `plans` a plan that may fit it, `compare` runs it as
written, split into phases, mapped, and compiled. `python -m tests.generated --kind drawn` runs many.
"""
