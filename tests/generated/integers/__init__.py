"""Random kernels on integers of every dtype, written in the language, and what they must give, in whole numbers."""
