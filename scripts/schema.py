"""Command pate-schema, as a file of the repository."""

from pate.cli.schema import main

if __name__ == "__main__":
    main()
