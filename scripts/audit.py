"""The same as the command pate-audit."""

from pate.cli.audit import main

if __name__ == "__main__":
    main()
