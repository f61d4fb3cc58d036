"""The same as the command pate-release."""

from pate.cli.release import main

if __name__ == "__main__":
    main()
