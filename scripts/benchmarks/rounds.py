"""Rounds of measurements: participants alternate, and a failed measurement does not end the others."""

import contextlib
import subprocess

from benchmarks.process import log


def turns(count, names, groups=(None,)):
    """Yields (round, group, name): each name once per round and group, with a different first name in each round."""
    names = list(names)
    for round_ in range(count):
        first = round_ % len(names)
        for group in groups:
            for name in names[first:] + names[:first]:
                yield round_, group, name


class Failures:
    """Measurements that failed, each with its reason."""

    def __init__(self):
        self.all = []

    @contextlib.contextmanager
    def caught(self, measurement):
        """Records an error of the block as a failure of `measurement`, a text, instead of raising it."""
        try:
            yield
        except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
            self.all.append(f"{measurement} failed: {error}")
            log(self.all[-1])

    def exit_status(self):
        """Prints the failures, and returns 1 if there are any, else 0. Results must be printed before."""
        if not self.all:
            return 0
        log("\n".join(["", f"{len(self.all)} measurements failed; their results are missing above:", *self.all]))
        return 1
