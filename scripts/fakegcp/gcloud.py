#!/usr/bin/env python3
"""The real gcloud without its start: its code is loaded once, and each command runs in a process forked from there, in a
third of the time. For tests that run hundreds of commands; it must be started with the environment that they have.

    gcloud.py --serve SDK    load gcloud from its folder, answer on the socket that $GCLOUD_SOCKET names, say "ready"; until
                             standard input ends, as it does when a test is killed
    gcloud.py ARGS…          run a command there
"""
import array
import json
import os
import select
import signal
import socket
import sys


def client(args):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(os.environ["GCLOUD_SOCKET"])
        request = json.dumps({"args": args, "cwd": os.getcwd(), "env": dict(os.environ)}).encode()
        s.sendmsg([len(request).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
        s.sendall(request)
        return (s.recv(1) or b"\x01")[0]


def receive(connection):
    """A request, after the caller's standard input, output and errors have become ours."""
    length, rights, _, _ = connection.recvmsg(4, socket.CMSG_LEN(3 * array.array("i").itemsize))
    for own, theirs in enumerate(array.array("i", rights[0][2])):
        os.dup2(theirs, own)
        os.close(theirs)
    request = b""
    while len(request) < int.from_bytes(length, "big"):
        request += connection.recv(1 << 16)
    return json.loads(request)


def serve(sdk):
    sys.path[:0] = [f"{sdk}/lib", f"{sdk}/lib/third_party"]
    from googlecloudsdk import gcloud_main
    from googlecloudsdk.core import properties
    properties.VALUES.api_endpoint_overrides._Add("billingbudgets")  # which has none of its own: it would go to Google
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.setpgrp()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.environ["GCLOUD_SOCKET"])
    listener.listen()
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([listener, 0], [], [])
        if 0 in readable and not os.read(0, 1024):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.killpg(0, signal.SIGTERM)  # commands that are under way
            return 0
        if listener not in readable:
            continue
        connection, _ = listener.accept()
        if os.fork():
            connection.close()
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        listener.close()
        code = 1
        try:
            request = receive(connection)
            os.chdir(request["cwd"])
            os.environ.clear()
            os.environ.update(request["env"])
            sys.argv = ["gcloud", *request["args"]]
            code = gcloud_main.main()
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else int(e.code is not None)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            connection.send(bytes([code or 0]))
            os._exit(0)


if __name__ == "__main__":
    sys.exit(serve(sys.argv[2]) if sys.argv[1:2] == ["--serve"] else client(sys.argv[1:]))
