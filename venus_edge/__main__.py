"""`python -m venus_edge` is `venus-edge`."""

from venus_edge.cli import main

if __name__ == "__main__":
    main()
