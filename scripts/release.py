"""Command pate-release, as a file of the repository."""

from pate.cli.release import main

if __name__ == "__main__":
    main()
