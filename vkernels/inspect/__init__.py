"""vkernels.inspect: `check` and `explain`, as functions of Python."""
