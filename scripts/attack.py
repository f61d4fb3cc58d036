"""Command pate-attack, as a file of the repository."""

from pate.cli.attack import main

if __name__ == "__main__":
    main()
