"""A terminal to look at: keeps what is on the screen, as escape codes leave it."""

from __future__ import annotations

import io
import re

_CODE = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])")


class Terminal(io.StringIO):
    """What was written, and the screen it makes."""

    def isatty(self) -> bool:
        return True

    @property
    def screen(self) -> list[str]:
        return self.screens()[-1]

    def screens(self) -> list[list[str]]:
        """The screen at the end of each line, and before each time it is drawn again."""
        text, found = self.getvalue(), [[""]]
        lines, row, column = [""], 0, 0
        position = 0
        while position < len(text):
            code = _CODE.match(text, position)
            if code is not None:
                position = code.end()
                amount = int(code[1]) if code[1].isdecimal() else 1
                if code[2] == "A":
                    row = max(0, row - amount)
                elif code[2] == "K":
                    lines[row] = ""
                elif code[2] not in ("m", "h", "l"):
                    raise AssertionError(f"unknown escape code {code[0]!r}")
                continue
            letter = text[position]
            position += 1
            if letter == "\n":
                row, column = row + 1, 0
                if row == len(lines):
                    lines.append("")
                found.append([line.rstrip() for line in lines])
            elif letter == "\r":  # how a redraw begins
                found.append([line.rstrip() for line in lines])
                column = 0
            else:
                line = lines[row].ljust(column)
                lines[row] = line[:column] + letter + line[column + 1 :]
                column += 1
        found.append([line.rstrip() for line in lines])
        return found
