"""Command pate-train, as a file of the repository."""

from pate.cli.train import main

if __name__ == "__main__":
    main()
