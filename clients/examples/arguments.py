"""The one option of every example: where the server is."""

import argparse


def read_url(description: str | None) -> str:
    """Return the value of ``--url``."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="127.0.0.1:8001", help="host and port of the server (%(default)s)")
    return str(parser.parse_args().url)
