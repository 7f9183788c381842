"""vkernels.ir: the vk dialect, its passes, plans, lowerings and interpreters. Knows no device, only limits."""
