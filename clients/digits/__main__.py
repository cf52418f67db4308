"""``python -m clients.digits DIRECTORY``: train the digits model, export it there, with files to send to it."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from clients.digits.export import export
from clients.digits.pictures import encode_png, load_pictures
from clients.digits.training import train

_TO_TRY: Final = [7, 8, 9]
"""Held-out pictures that are easy to read: a five, an eight and a three."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the export and the files; ``arguments`` are those of the process if None."""
    parser = argparse.ArgumentParser(
        prog="python -m clients.digits",
        description="Train the digits model and export it, with digit.png and pictures.npy to try it.",
    )
    parser.add_argument("directory", type=Path, help="where; its name is the model's when it is served")
    directory = parser.parse_args(arguments).directory
    training, held_out = load_pictures()
    export(train(training, held_out), directory)
    (directory / "digit.png").write_bytes(encode_png(held_out.images[_TO_TRY[0]]))
    np.save(directory / "pictures.npy", held_out.images[_TO_TRY])
    print(f"exported to {directory}, with digit.png and pictures.npy to try it")


if __name__ == "__main__":
    main()
