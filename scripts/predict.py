"""Command pate-predict, as a file of the repository."""

from pate.cli.predict import main

if __name__ == "__main__":
    main()
