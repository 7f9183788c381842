"""How long a kernel takes under a plan, as modelled: on a CPU and on a GPU."""
