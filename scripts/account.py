"""The same as the command pate-account."""

from pate.cli.account import main

if __name__ == "__main__":
    main()
