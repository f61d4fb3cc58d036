"""The same as the command pate-schema."""

from pate.cli.schema import main

if __name__ == "__main__":
    main()
