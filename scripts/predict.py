"""The same as the command pate-predict."""

from pate.cli.predict import main

if __name__ == "__main__":
    main()
