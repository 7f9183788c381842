"""The CEED bake-off problems BP1 to BP6: meshes of hexahedra, matrix-free operators, Jacobi-preconditioned CG.

Fischer et al., Scalability of high-performance PDE solvers (2020).
"""
