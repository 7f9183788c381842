"""Plain Triton kernels, written by hand as an experienced author would write them: what ours are compared with.

They were written and committed before the planner's work that they judge; later changes may only make them faster.
Each file has kernels and what a launch passes them. `tests/benchmarks/test_hand_triton.py` runs them in Triton's
interpreter.
"""
