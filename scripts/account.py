"""Command pate-account, as a file of the repository."""

from pate.cli.account import main

if __name__ == "__main__":
    main()
