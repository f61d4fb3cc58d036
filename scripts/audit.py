"""Command pate-audit, as a file of the repository."""

from pate.cli.audit import main

if __name__ == "__main__":
    main()
