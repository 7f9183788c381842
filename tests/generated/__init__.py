"""Random cases: kernels, plans, limits, shapes, dtypes, layouts and integers from seeds.

`python -m tests.generated` runs many seeds of the kinds in `kinds`, each in a child process (`worker`, `children`), and
keeps what came of them in a state file (`log`).
"""
