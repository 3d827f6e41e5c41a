"""`python -m venus_convert`."""

from venus_convert.cli import convert_command

if __name__ == "__main__":
    convert_command()
