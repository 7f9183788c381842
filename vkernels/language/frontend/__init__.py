"""From the text of a kernel to vk IR."""
