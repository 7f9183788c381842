"""Every public function of the library against references in higher precision, on random arguments of every kind.

`python -m tests.differential --calls 100000 --seed 7 --state FILE` goes on where it was stopped; docs/numerics.md
states the bounds that results are held to.
"""
