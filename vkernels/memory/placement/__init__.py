"""Where each buffer of a launch lives: copied to the device, reached where it is, or managed by the driver."""
