"""cron's `%`: the end of the command and the line breaks of what it reads (do_command.c)."""

from __future__ import annotations


def split_percent(text: str) -> tuple[str, str]:
    r"""The command and its stdin ("" where it reads nothing): `%` divides, later ones are line breaks, `\%` is `%`."""
    command: list[str] = []
    escaped = False
    for at, char in enumerate(text):
        if escaped and char == "%":
            command.pop()
        elif char == "%":
            return "".join(command), _stdin(text[at + 1 :])
        command.append(char)
        escaped = not escaped and char == "\\"
    return "".join(command), ""


def _stdin(text: str) -> str:
    written: list[str] = []
    escaped = False
    for char in text:
        if escaped and char != "%":
            written.append("\\")
        out = "\n" if char == "%" and not escaped else char
        escaped = char == "\\"
        if not escaped:
            written.append(out)
    if escaped:
        written.append("\\")
    text = "".join(written)
    return text if not text or text.endswith("\n") else f"{text}\n"
