"""The same as the command pate-attack."""

from pate.cli.attack import main

if __name__ == "__main__":
    main()
