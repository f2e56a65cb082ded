"""Charts as data, one module a plot: each says from which cells it is made. Drawing them is another room's module."""
