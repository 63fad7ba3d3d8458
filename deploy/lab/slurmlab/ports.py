"""Free ports, found by binding them."""

from __future__ import annotations

import random
import socket

from .options import LabError, Ports

# below the range that the kernel hands to outgoing connections, so that no client of ours takes one meanwhile
RANGE = range(10_000, 32_000)


def pick(nodes: int, *, accounting: bool) -> Ports:
    """Ports that nobody listens on now. Somebody may take one before our daemon does: then pick again.

    Raises LabError when there are not enough.
    """
    wanted = 1 + nodes + (2 if accounting else 0)
    held: list[socket.socket] = []
    try:
        for port in random.sample(RANGE, len(RANGE)):
            if len(held) == wanted:
                break
            held += _bound(port)
        if len(held) < wanted:
            raise LabError(
                f"fewer than {wanted} free ports from {RANGE.start} to {RANGE.stop}. End another lab: lab down"
            )
        numbers = [sock.getsockname()[1] for sock in held]
    finally:
        for sock in held:
            sock.close()
    dbd, sql = numbers[-2:] if accounting else (0, 0)
    return Ports(ctld=numbers[0], nodes=tuple(numbers[1 : 1 + nodes]), dbd=dbd, sql=sql)


def _bound(port: int) -> list[socket.socket]:
    sock = socket.socket()
    try:
        sock.bind(("0.0.0.0", port))  # noqa: S104 -- asks whether it is free on every address; nothing listens
    except OSError:
        sock.close()
        return []
    return [sock]
