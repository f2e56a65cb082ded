"""`python -m gearshift` and the `gearshift` command."""

from __future__ import annotations

from gearshift.cli.root import root


def main() -> None:
    """Run the command line and exit with its status."""
    root(prog_name="gearshift")


if __name__ == "__main__":
    main()
