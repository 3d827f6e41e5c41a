"""`python -m venus_convert`."""

from venus_convert.cli import main

if __name__ == "__main__":
    main()
