"""Worker processes that compile: a compiler that hangs or aborts ends one of them, and nothing else."""
