"""Uses `xoff status --watch` by keys on a terminal of 80x24; see control.rs."""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios


def begin():
    pid, terminal = pty.fork()
    if pid == 0:
        # Set the size before the program reads it.
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.environ["TERM"] = "xterm-256color"
        os.execv(sys.argv[1], sys.argv[1:])
    return pid, terminal


decoder = codecs.getincrementaldecoder("utf-8")()
seen = ""
cells = {}


def screen():
    """Returns the lines on the terminal. Only cursor movement, characters and clearing are interpreted."""
    cells.clear()
    row = column = 1
    for match in re.finditer(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b.|([^\x1b])", seen):
        places, command, character = match.groups()
        if command == "H":
            row, column = (int(part) for part in places.split(";")) if ";" in places else (1, 1)
        elif command == "J":
            cells.clear()
        elif character and character.isprintable():
            cells[row, column] = character
            column += 1
    return "\n".join("".join(cells.get((row, column), " ") for column in range(1, 81)) for row in range(1, 25))


def wait(ready):
    """Reads until the condition holds, at most 500 times; each read waits at most for a minute."""
    global seen
    for _ in range(500):
        if ready():
            return
        if not select.select([terminal], [], [], 60)[0]:
            break
        try:
            seen += decoder.decode(os.read(terminal, 65536))
        except OSError:
            break
    raise SystemExit(f"the condition did not become true: {seen!r}\n{screen()}")


def wait_for(words):
    wait(lambda: words in screen())


# The program ends with its terminal.
pid, terminal = begin()
wait_for("1-2 of 2 ports")
os.close(terminal)
os.waitpid(pid, 0)

seen = ""
pid, terminal = begin()
wait(lambda: "\x1b[?1049h" in seen)
wait_for("1-2 of 2 ports; 0 congested or paused")
os.write(terminal, b"c")
wait_for("no port to show; congested or paused only")
os.write(terminal, b"a\r")
wait_for("3 lossless")
os.write(terminal, b"\x1b")
wait_for("1-2 of 2 ports")
assert "q quit" in screen() and max(len(line) for line in screen().splitlines()) == 80
os.write(terminal, b"q")
wait(lambda: "\x1b[?1049l" in seen)
_, status = os.waitpid(pid, 0)
raise SystemExit(os.waitstatus_to_exitcode(status))
