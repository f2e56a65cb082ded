"""What model files say about themselves: headers and configs, never tensor data. Impure: reads disks."""
