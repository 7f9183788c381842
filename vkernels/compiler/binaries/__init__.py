"""GPU binaries read loop by loop: what one trip issues, and from it a lower bound of a kernel's time on a device."""
