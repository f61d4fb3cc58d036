"""The same as the command pate-student."""

from pate.cli.student import main

if __name__ == "__main__":
    main()
