"""The host side of GPU kernels: loading and launching them."""
