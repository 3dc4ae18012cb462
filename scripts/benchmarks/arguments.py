"""Common arguments of benchmarks, and the types of their values."""

import argparse
import os
from pathlib import Path


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Formats help at the width of the descriptions, and keeps their lines."""

    def __init__(self, prog):
        super().__init__(prog, max_help_position=28, width=118)


class Parser(argparse.ArgumentParser):
    """A parser that reports invalid arguments in one line, without the usage."""

    def __init__(self, **options):
        super().__init__(allow_abbrev=False, **options)

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def positive(kind):
    """Returns the type of a number above 0; `kind` is `int` or `float`."""

    def parse(text):
        try:
            number = kind(text)
        except ValueError:
            number = 0
        if not 0 < number < float("inf"):
            raise argparse.ArgumentTypeError(f"'{text}' is no {'whole ' * (kind is int)}number above 0")
        return number

    return parse


def natural(text):
    """Parses a whole number, 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number")
    return int(text)


def frame_size(text):
    """Parses a frame's length in bytes, with FCS."""
    size = positive(int)(text)
    if not 64 <= size <= 1518:
        raise argparse.ArgumentTypeError(f"{size} is no length of a frame; take 64 to 1518")
    return size


def list_of(parse):
    """Returns the type of a comma-separated list, each element parsed by `parse`."""
    return lambda text: [parse(element) for element in text.split(",")]


def choice_of(names):
    """Returns the type of a list, possibly empty, of these names."""
    return lambda text: list_of(one_of(names))(text) if text else []


def one_of(names):
    """Returns the type of one of these names."""

    def parse(text):
        if text not in names:
            raise argparse.ArgumentTypeError(f"'{text}' is unknown; choose from {', '.join(names)}")
        return text

    return parse


def binary(text):
    """Parses the path of a program."""
    path = Path(text).resolve()
    if not path.is_file() or not os.access(path, os.X_OK):
        raise argparse.ArgumentTypeError(f"'{text}' is no program")
    return str(path)


def named_binary(text):
    """Parses NAME=BINARY."""
    name, separator, path = text.partition("=")
    if not name or not separator:
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form NAME=BINARY")
    return name, binary(path)


def add_json(parser):
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def add_xoff(parser):
    parser.add_argument("--xoff", type=binary, metavar="BINARY", help="the switch [built from this tree]")


def add_also(parser):
    parser.add_argument(
        "--also",
        type=named_binary,
        action="append",
        default=[],
        metavar="NAME=BINARY",
        help="a further xoff, to compare versions with each other; can be repeated",
    )


def add_rounds(parser, default, of="all measurements"):
    parser.add_argument(
        "--rounds", type=positive(int), default=default, metavar="N", help=f"repetitions of {of} [%(default)s]"
    )


def add_seconds(parser, default):
    parser.add_argument(
        "--seconds", type=positive(float), default=default, metavar="S", help="length of a measurement [%(default)s]"
    )


def add_size(parser, default):
    parser.add_argument(
        "--size", type=frame_size, default=default, metavar="BYTES", help="length of a frame with FCS [%(default)s]"
    )
