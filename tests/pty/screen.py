#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a program on a terminal of its own and looks at the screen: screen.py COMMAND [ARGUMENTS] <SCRIPT

TERM, LINES and COLUMNS are those of the environment [vt100, 24, 80]. Lines of the script:

    wait REGEX          until a line of the screen matches
    gone REGEX          until no line matches
    send TEXT           type TEXT, with the escapes of Python
    size ROWS COLUMNS   resize the terminal; the program gets SIGWINCH
    signal NAME         send a signal to the program, for example TERM
    run COMMAND         run a command of the shell, which must succeed
    show                print the screen, each line after a bar

At the end it waits for the program, and prints how it ended and how it left the terminal: "exit 0" or
"signal 15", "settings restored" or "settings changed", "cursor shown" or "cursor hidden". A character that is
written beyond the last column is an error. The exit status is 1 when something that was waited for did not
happen in 120 seconds.
"""
import codecs, fcntl, os, pty, re, select, signal, struct, subprocess, sys, termios, time

PATIENCE = 120


class Screen:
    """What a VT100, or an xterm, shows of the sequences that ncurses writes for it."""

    def __init__(self, rows, columns):
        self.x = self.y = 0
        self.overflow = 0
        self.cursor_shown = True
        self.cells = []
        self.rest = b""
        self.saved = (0, 0)
        self.resize(rows, columns)

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.top, self.bottom = 0, rows - 1
        old = [row[:columns] + [" "] * (columns - len(row)) for row in self.cells[:rows]]
        self.cells = old + [[" "] * columns for _ in range(rows - len(old))]
        self.x, self.y = min(self.x, columns - 1), min(self.y, rows - 1)

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def scroll(self, first, last, n):
        for _ in range(min(abs(n), self.rows)):
            if n > 0:
                del self.cells[first]
                self.cells.insert(last, [" "] * self.columns)
            else:
                del self.cells[last]
                self.cells.insert(first, [" "] * self.columns)

    def put(self, char):
        if self.x >= self.columns:
            self.overflow += 1
            return
        self.cells[self.y][self.x] = char
        self.x += 1

    def erase(self, y, first, last):
        for x in range(max(first, 0), min(last, self.columns)):
            self.cells[y][x] = " "

    def control(self, char):
        if char == "\r":
            self.x = 0
        elif char == "\b":
            self.x = max(self.x - 1, 0)
        elif char == "\t":
            self.x = min(self.x // 8 * 8 + 8, self.columns - 1)
        elif char == "\n":
            if self.y == self.bottom:
                self.scroll(self.top, self.bottom, 1)
            elif self.y + 1 < self.rows:
                self.y += 1

    def erase_display(self, how):
        if how in (0, 2):
            self.erase(self.y, self.x if how == 0 else 0, self.columns)
            for y in range(self.y + 1 if how == 0 else 0, self.rows):
                self.erase(y, 0, self.columns)
        if how == 1:
            for y in range(self.y):
                self.erase(y, 0, self.columns)
            self.erase(self.y, 0, self.x + 1)

    def csi(self, private, numbers, final):
        n = numbers[0] if numbers else 0
        one = max(n, 1)
        if private:
            if final in "hl" and 25 in numbers:
                self.cursor_shown = final == "h"
        elif final in "Hf":
            self.y = min(max(n, 1), self.rows) - 1
            self.x = min(max(numbers[1] if len(numbers) > 1 else 1, 1), self.columns) - 1
        elif final == "A":
            self.y = max(self.y - one, 0)
        elif final == "B":
            self.y = min(self.y + one, self.rows - 1)
        elif final == "C":
            self.x = min(self.x + one, self.columns - 1)
        elif final == "D":
            self.x = max(min(self.x, self.columns - 1) - one, 0)
        elif final in "G`":
            self.x = min(one, self.columns) - 1
        elif final == "d":
            self.y = min(one, self.rows) - 1
        elif final == "K":
            first, last = {0: (self.x, self.columns), 1: (0, self.x + 1)}.get(n, (0, self.columns))
            self.erase(self.y, first, last)
        elif final == "J":
            self.erase_display(n)
        elif final == "X":
            self.erase(self.y, self.x, self.x + one)
        elif final == "b":
            for _ in range(one):
                self.put(self.cells[self.y][self.x - 1])
        elif final == "r":
            self.top = max(n, 1) - 1
            self.bottom = (numbers[1] if len(numbers) > 1 and numbers[1] else self.rows) - 1
            self.x = self.y = 0
        elif final == "P":
            row = self.cells[self.y]
            self.cells[self.y] = row[: self.x] + row[self.x + one :] + [" "] * min(one, self.columns - self.x)
        elif final == "@":
            row = self.cells[self.y]
            self.cells[self.y] = (row[: self.x] + [" "] * one + row[self.x :])[: self.columns]
        elif final in "LM":
            self.scroll(self.y, self.bottom, one if final == "M" else -one)
        elif final in "ST":
            self.scroll(self.top, self.bottom, one if final == "S" else -one)

    def escape(self, text):
        """Obeys the sequence at the start; returns its length, 0 when the rest of it is missing."""
        found = re.match(r"\x1b\[([?>=]?)([0-9;]*)([@-~])", text)
        if found:
            numbers = [int(n or 0) for n in found[2].split(";")] if found[2] else []
            self.csi(found[1], numbers, found[3])
            return found.end()
        found = re.match(r"\x1b[()*+].|\x1b\][^\x07]*\x07|\x1b[=>78MDEHc]", text, re.S)
        if not found:
            return 0
        if found[0] == "\x1bM":
            if self.y == self.top:
                self.scroll(self.top, self.bottom, -1)
            else:
                self.y -= 1
        elif found[0] == "\x1b7":
            self.saved = (self.x, self.y)
        elif found[0] == "\x1b8":
            self.x, self.y = min(self.saved[0], self.columns - 1), min(self.saved[1], self.rows - 1)
        return found.end()

    def feed(self, data):
        data = self.rest + data
        cut = len(data)
        for back in range(1, min(4, len(data)) + 1):  # a character of which not all bytes have come
            byte = data[-back]
            if byte >= 0xC0:
                cut = len(data) - back if back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) else cut
                break
            if byte < 0x80:
                break
        text, self.rest = data[:cut].decode("utf-8", "replace"), data[cut:]
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                n = self.escape(text[at:])
                if n == 0:
                    self.rest = text[at:].encode() + self.rest
                    return
                at += n
                continue
            if text[at] >= " " and text[at] != "\x7f":
                self.put(text[at])
            else:
                self.control(text[at])
            at += 1


class Program:
    def __init__(self, command):
        rows, columns = int(os.environ.pop("LINES", 24)), int(os.environ.pop("COLUMNS", 80))
        os.environ.setdefault("TERM", "vt100")
        self.screen = Screen(rows, columns)
        self.status = None
        self.overflow_before = None  # a size was set: what is on its way was made for the last one, until something comes
        # The terminal stays open here, so that its settings can be compared at the end.
        self.master, self.slave = pty.openpty()
        self.set_size(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen(command, stdin=self.slave, stdout=self.slave, stderr=self.slave,
                                        start_new_session=True, preexec_fn=self.take_terminal)

    def take_terminal(self):
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

    def set_size(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def pump(self, seconds=0.05):
        ready, _, _ = select.select([self.master], [], [], seconds)
        if ready:
            self.screen.feed(os.read(self.master, 1 << 16))
        return bool(ready)

    def wait_until(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                print(f"screen: this did not happen: {what}")
                self.show()
                self.process.kill()
                sys.exit(1)
            self.pump()

    def has(self, pattern):
        return any(re.search(pattern, line) for line in self.screen.lines())

    def show(self):
        for line in self.screen.lines():
            print("|" + line)

    def obey(self, line):
        word, _, rest = line.partition(" ")
        if word == "wait":
            self.wait_until(lambda: self.has(rest), line)
            if self.overflow_before is not None:
                self.screen.overflow, self.overflow_before = self.overflow_before, None
        elif word == "gone":
            self.wait_until(lambda: not self.has(rest), line)
        elif word == "send":
            os.write(self.master, codecs.decode(rest, "unicode_escape").encode("latin-1"))
        elif word == "size":
            rows, columns = map(int, rest.split())
            if self.overflow_before is None:
                self.overflow_before = self.screen.overflow
            self.set_size(rows, columns)
            self.screen.resize(rows, columns)
        elif word == "signal":
            self.process.send_signal(getattr(signal, "SIG" + rest))
        elif word == "run":
            subprocess.run(rest, shell=True, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        elif word == "show":
            self.show()
        else:
            sys.exit(f"screen: unknown line: {line}")

    def end(self):
        self.wait_until(lambda: self.process.poll() is not None, "the program ends")
        while self.pump(0):
            pass
        code = self.process.returncode
        print(f"exit {code}" if code >= 0 else f"signal {-code}")
        print("settings", "restored" if termios.tcgetattr(self.slave) == self.before else "changed")
        print("cursor", "shown" if self.screen.cursor_shown else "hidden")
        if self.screen.overflow and self.overflow_before is None:
            print(f"{self.screen.overflow} characters were written beyond the last column")
            sys.exit(1)


def main():
    program = Program(sys.argv[1:])
    for line in sys.stdin:
        if line.strip():
            program.obey(line.rstrip("\n"))
    program.end()


main()
