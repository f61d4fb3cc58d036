"""The same as the command pate-compare."""

from pate.cli.compare import main

if __name__ == "__main__":
    main()
