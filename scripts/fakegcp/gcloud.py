#!/usr/bin/env python3
"""The real gcloud without its start: its code is loaded once, and each command runs in a process forked from there. What
a command has loaded beside that, the ones after it find loaded. For tests that run hundreds of commands.

    gcloud.py --serve SDK    load gcloud from its folder, answer on the socket that $GCLOUD_SOCKET names, say "ready"; until
                             standard input ends, as it does when a test is killed
    gcloud.py ARGS…          run a command there
"""
import os
import sys

import _socket  # what socket is made of: the client is begun for each command, and socket takes longer than all else of it


def client(args):
    s = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    s.connect(os.environ["GCLOUD_SOCKET"])
    request = "\0".join((os.getcwd(), str(len(args)), *args, *map("=".join, os.environ.items()))).encode(errors="surrogateescape")
    own = b"".join(fd.to_bytes(4, sys.byteorder) for fd in range(3))
    s.sendmsg([len(request).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, own)])
    s.sendall(request)
    return (s.recv(1) or b"\x01")[0]


def receive(connection):
    """A request's arguments, after the caller's folder, environment, standard input, output and errors have become ours."""
    length, rights, _, _ = connection.recvmsg(4, _socket.CMSG_LEN(12))
    for own in range(3):
        theirs = int.from_bytes(rights[0][2][4 * own:4 * own + 4], sys.byteorder)
        os.dup2(theirs, own)
        os.close(theirs)
    request = b""
    while len(request) < int.from_bytes(length, "big"):
        request += connection.recv(1 << 16)
    folder, n, *rest = request.decode(errors="surrogateescape").split("\0")
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variable.split("=", 1) for variable in rest[int(n):])
    return rest[:int(n)]


def load(names):
    """Loads what a command had to load. What can't be loaded by its name alone, each loads for itself."""
    import gc
    import importlib
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:
            pass
    gc.collect()
    gc.freeze()  # or each command would look through all of it, and copy it


def serve(sdk):
    import json
    import select
    import signal
    import socket
    sys.path[:0] = [f"{sdk}/lib", f"{sdk}/lib/third_party"]
    from googlecloudsdk import gcloud_main
    from googlecloudsdk.core import properties
    properties.VALUES.api_endpoint_overrides._Add("billingbudgets")  # which has none of its own: it would go to Google
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.setpgrp()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.environ["GCLOUD_SOCKET"])
    listener.listen()
    learned, teacher = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    load([])
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([listener, learned, 0], [], [])
        if 0 in readable and not os.read(0, 1024):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.killpg(0, signal.SIGTERM)  # commands that are under way
            return 0
        if learned in readable:
            load(json.loads(learned.recv(1 << 20)))
        if listener not in readable:
            continue
        connection, _ = listener.accept()
        if os.fork():
            connection.close()
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        listener.close()
        learned.close()
        loaded, code = set(sys.modules), 1
        try:
            sys.argv = ["gcloud", *receive(connection)]
            code = gcloud_main.main()
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else int(e.code is not None)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            connection.send(bytes([code or 0]))
            try:
                new = [name for name in sys.modules if name.startswith("googlecloudsdk.") and name not in loaded]
                if new:
                    teacher.send(json.dumps(new).encode())
            finally:
                os._exit(0)


if __name__ == "__main__":
    sys.exit(serve(sys.argv[2]) if sys.argv[1:2] == ["--serve"] else client(sys.argv[1:]))
