"""The same as the command pate-student."""

from pate_federated.cli.student import main

if __name__ == "__main__":
    main()
