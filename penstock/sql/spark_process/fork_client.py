"""What Spark starts as a Python process: asks the fork server for one, and stands for it until it ends.

The script `python` runs it as a file, without the folders of packages: it costs ten milliseconds. It becomes an
interpreter of its own where no fork server answers, or the environment is another one.
"""

from __future__ import annotations

import _socket
import os
import sys

SERVED = {"pyspark.daemon": 60.0, "pyspark.sql.streaming.python_streaming_source_runner": 5.0}
"""Modules that Spark starts, and the seconds to wait for the server, which may still import at the first daemon.

Spark waits for a daemon as long as it lives, and ten seconds for the other: its own start has half of them.
"""

SERVER = "PENSTOCK_FORK_SERVER"
"""The variable that has the path of the fork server's socket."""

ASKED, BEGIN = b"?", b"!"


def main() -> None:
    """Be the process of `python ARGUMENTS`."""
    python, arguments = sys.argv[1], sys.argv[2:]
    path = os.environ.get(SERVER)
    if path and arguments[:1] == ["-m"] and arguments[1:2] and arguments[1] in SERVED:
        status = forked(path, arguments[1:], SERVED[arguments[1]])
        if status is not None:
            os._exit(status)
    os.execv(python, [python, *arguments])  # noqa: S606  as Spark asked


def forked(path: str, arguments: list[str], timeout_s: float) -> int | None:
    """Have a process forked that takes this one's files, and wait for its end; None where there is none."""
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        server.settimeout(timeout_s)
        server.connect(path)
        if _owner(server) != os.geteuid():
            return None  # the folder was removed, as temporary ones are, and another account made it again
        files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
        server.sendmsg([ASKED], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
        request = _request(arguments)
        server.sendall(len(request).to_bytes(4, "big") + request)
        if server.recv(1) != BEGIN:
            return None
        # from here on there is a process: none before, should this one have given up
        server.sendall(BEGIN)
    except OSError:
        return None
    server.settimeout(None)
    try:
        status = server.recv(1)
    except OSError:
        status = b""
    return status[0] if status else 1


def _owner(server: _socket.socket) -> int:
    """Return the account of the process that listens."""
    of_process = server.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(of_process[4:8], sys.byteorder)


def _request(arguments: list[str]) -> bytes:
    import resource  # not everywhere where this module is read

    umask = os.umask(0)
    os.umask(umask)
    environment = [name + b"=" + value for name, value in os.environb.items()]
    folder = os.getcwdb()  # noqa: PTH109  pathlib costs as much as all else in here
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    numbers = (umask, open_files, len(arguments))
    head = [folder, *(str(number).encode() for number in numbers)]
    return b"\0".join([*head, *map(os.fsencode, arguments), *environment])


if __name__ == "__main__":
    main()
