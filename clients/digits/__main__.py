"""``python -m clients.digits DIRECTORY``: train the digits model and export it there."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from clients.digits.export import export
from clients.digits.pictures import load_pictures
from clients.digits.training import train


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the export; ``arguments`` are those of the process if None."""
    parser = argparse.ArgumentParser(prog="python -m clients.digits", description="Train the digits model, export it.")
    parser.add_argument("directory", type=Path, help="where; its name is the model's when it is served")
    directory = parser.parse_args(arguments).directory
    export(train(*load_pictures()), directory)
    print(f"exported to {directory}")


if __name__ == "__main__":
    main()
