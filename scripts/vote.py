"""The same as the command pate-vote."""

from pate.cli.vote import main

if __name__ == "__main__":
    main()
