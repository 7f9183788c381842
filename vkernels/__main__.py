"""`python -m vkernels`: the same as `vk`."""

from .commands import main

main()
