# SPDX-License-Identifier: MIT
# Runs the commands of Markdown pages as they are printed:
#   documents.py REPOSITORY PROGRAMS WORK PAGE...
# A page is one session of bash in a folder of its own. A block of code is a command when it is indented by four spaces, or fenced
# with no language, or with sh or console. In a block with "$ " prompts the lines below a command are its output, and are
# compared; "..." stands for any text. "$ cat FILE" makes FILE with the lines below it, unless it is there. Every command of a block
# has to succeed. Comments in the page speak of the next block:
#   <!-- not run: REASON -->              the block is not run
#   <!-- output varies: REASON -->        what it prints is not compared
#   <!-- may exit with N: REASON -->      N is as good as 0 for its commands
#   <!-- with: COMMANDS -->               commands that run before it, for what the text takes for granted
# Each has to name a reason, or commands. What stands in for the world outside, such as servers, is in documents.bash.
# The output is a line "pass TITLE" or "fail TITLE: WHY" for each block, "note ..." for those that are not run, and the counts.
import os
import re
import shlex
import subprocess
import sys

MARK = re.compile(r"<!-- *(not run|output varies|may exit with|with)\b *(.*?) *-->", re.S)
SHELL = ("", "sh", "console")


class Block:
    def __init__(self, line, lines, marks):
        self.line, self.lines, self.marks = line, lines, marks
        self.steps = []  # (kind, file): see write_steps


def blocks_of(text):
    """The blocks of a page that contain commands, with the marks before them."""
    blocks, marks = [], []
    lines = text.split("\n")
    i = 0
    while i < len(lines):
        fence = re.match(r"(```+)\s*(\S*)", lines[i])
        if lines[i].startswith("<!--"):
            start = i
            while "-->" not in lines[i]:
                i += 1
            mark = MARK.fullmatch("\n".join(lines[start:i + 1]).strip())
            if mark:
                marks.append((mark[1], mark[2]))
        elif fence:
            start = i + 1
            while i + 1 < len(lines) and not lines[i + 1].startswith(fence[1]):
                i += 1
            if fence[2] in SHELL:
                blocks.append(Block(start, lines[start:i + 1], marks))
                marks = []
            i += 1
        elif lines[i].startswith("    ") and (i == 0 or not lines[i - 1].strip() or lines[i - 1].endswith("-->")):
            start = i
            while i + 1 < len(lines) and (lines[i + 1].startswith("    ") or not lines[i + 1].strip()):
                i += 1
            body = [line[4:] for line in lines[start:i + 1]]
            while not body[-1].strip():
                body.pop()
            blocks.append(Block(start + 1, body, marks))
            marks = []
        i += 1
    return blocks, marks


def commands_of(lines):
    """The commands of a block, each with its output, or None when the block shows none."""
    if not any(line.startswith("$ ") for line in lines):
        return [("\n".join(lines), None)]
    commands = []
    for line in lines:
        if line.startswith("$ "):
            commands.append([line[2:], []])
        elif commands and not commands[-1][1] and continues(commands[-1][0]):
            commands[-1][0] += "\n" + line
        elif commands:
            commands[-1][1].append(line)
    return [(command, output if any(map(str.strip, output)) else None) for command, output in commands]


def continues(command):
    """Whether a command goes on in the next line: bash finds its end missing, or it ends with a backslash or a pipe."""
    if re.search(r"(\\|\||&&)\s*$", command):
        return True
    said = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True).stderr
    return "unexpected EOF" in said or "unexpected end of file" in said


def says(expected, got):
    """Whether got is what is expected. An empty line at the end of a block separates it from the next command."""
    pattern = ".*".join(re.escape(part) for part in "\n".join(expected).rstrip("\n").split("..."))
    return re.fullmatch(pattern, got.rstrip("\n"), re.S) is not None


class Page:
    def __init__(self, repository, programs, work, path):
        self.name = os.path.relpath(path, repository)
        self.repository, self.programs = repository, programs
        self.folder = os.path.join(work, self.name.replace("/", "_"))
        with open(path, encoding="utf-8") as file:
            self.blocks, self.left = blocks_of(file.read())
        self.n_steps = 0
        self.session = []

    def add(self, kind, text, allowed):
        path = os.path.join(self.folder + ".steps", str(self.n_steps))
        self.n_steps += 1
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        self.session.append(f"step {shlex.quote(path)} '{allowed}' {kind}")
        return path

    def write_steps(self):
        os.makedirs(self.folder + ".steps")
        os.makedirs(self.folder)
        for block in self.blocks:
            block.marks_by = dict(block.marks)
            block.bad = [name for name, text in block.marks if not text.strip(": ")]
            allowed = re.match(r"(\d+)", block.marks_by.get("may exit with", ""))
            for name, text in block.marks:
                if name == "with":
                    block.steps.append((self.add("hidden", text.lstrip(": "), ""), None))
            if "not run" in block.marks_by:
                continue
            for command, output in commands_of(block.lines):
                shown = re.fullmatch(r"cat ([\w.-]+)", command)
                if shown and output and not os.path.exists(os.path.join(self.folder, shown[1])):
                    quoted = "\n".join(output).rstrip("\n")
                    self.add("hidden", f"[ -e {shown[1]} ] || cat >{shown[1]} <<'END OF FILE'\n{quoted}\nEND OF FILE", "")
                step = self.add("shown", command, allowed[1] if allowed else "")
                block.steps.append((step, None if "output varies" in block.marks_by else output))

    def run(self):
        self.write_steps()
        script = os.path.join(self.folder + ".steps", "session")
        with open(script, "w", encoding="utf-8") as file:
            file.write(f". {shlex.quote(self.repository + '/tests/cli/documents.bash')}\n" + "\n".join(self.session) + "\n")
        env = dict(os.environ, REPOSITORY=self.repository, PROGRAMS=self.programs)
        with open(script + ".log", "w", encoding="utf-8") as log:
            subprocess.run(["timeout", "-k", "9", "900", "bash", script], cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=log,
                           stderr=log, check=False)

    def why(self, block):
        """What is wrong with a block that ran, or nothing."""
        def read(path):
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    return file.read()
            except FileNotFoundError:
                return None
        if block.bad:
            return f"'{block.bad[0]}' without a reason"
        for step, output in block.steps:
            failed, out, done = read(step + ".failed"), read(step + ".out"), read(step + ".done")
            if done is None:
                return "the session ended before it did: " + (read(self.folder + ".steps/session.log") or "")[-300:]
            if failed:
                return failed + (read(step + ".err") or "")[-500:]
            if output and not says(output, out + read(step + ".err")) and not says(output, out):
                return "printed:\n" + out[-500:]
        return None

    def report(self):
        ran = marked = 0
        for block in self.blocks:
            title = f"{self.name}:{block.line} {next(line for line in block.lines if line.strip()).strip()[:70]}"
            why = self.why(block)
            if why:
                print(f"fail {title}: " + why.replace("\n", " | "))
            elif "not run" in block.marks_by:
                marked += 1
                print(f"note {title}: not run: {block.marks_by['not run'].lstrip(': ')}")
            else:
                ran += 1
                print(f"pass {title}")
        for name, text in self.left:
            print(f"fail {self.name}: no block after '{name}: {text}'")
        return ran, marked


def main():
    repository, programs, work = sys.argv[1:4]
    ran = marked = 0
    for path in sys.argv[4:]:
        page = Page(repository, programs, work, path)
        if page.blocks or page.left:
            page.run()
            counts = page.report()
            ran, marked = ran + counts[0], marked + counts[1]
            sys.stdout.flush()
    print(f"note {ran} blocks run, {marked} marked 'not run'")


main()
