"""Compile a request to code. Calls, `vk check`, `vk explain` and `vk tune` all use a `CompilerSession`."""
