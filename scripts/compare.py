"""Command pate-compare, as a file of the repository."""

from pate.cli.compare import main

if __name__ == "__main__":
    main()
