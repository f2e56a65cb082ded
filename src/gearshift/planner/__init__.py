"""Where each byte of a device will go, whether it fits, and how fast the hardware allows it to be. Pure."""
