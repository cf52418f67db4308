"""``python -m service`` is the program ``signet``."""

from service.cli import main

if __name__ == "__main__":
    main()
