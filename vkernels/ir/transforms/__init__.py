"""Passes over vk IR: one a file, named by its verb. `vkernels/ir/pipeline.py` says which run, and in which order."""
