"""What each kind of device offers, as `vkernels.ir.limits.Limits`."""
