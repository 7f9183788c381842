"""Random limits, shapes, dtypes, layouts and kernels: what the chosen plan computes is what was written.

`limits` draws limits of any device, `library` and `subjects` kernels and calls with their references, `group` plans one
kernel for several limits and runs each plan's code (`code`): natively on the CPU, as TTIR in NumPy for GPUs. `python -m
tests.generated --kind planned` runs many.
"""
