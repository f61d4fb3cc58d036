"""The same as the command pate-train."""

from pate.cli.train import main

if __name__ == "__main__":
    main()
