"""Runs a command where the only name server answers late: ``slow_resolver.py DELAY_S COMMAND...``.

To be started in a mount and a network namespace of its own (``unshare --mount --net``). Every name
has the address 10.1.2.3. The server is this process, so it is outside of a session that COMMAND
starts. Exits with the command's exit code.
"""

import fcntl
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

PORT = 53
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
ADDRESS = bytes([10, 1, 2, 3])
ANSWER_TO_NAME_ASKED = b"\xc0\x0c"
TYPE_A, CLASS_IN = 1, 1


def bring_loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def use_own_server():
    with tempfile.NamedTemporaryFile("w") as settings:
        settings.write("nameserver 127.0.0.1\n")
        settings.flush()
        subprocess.run(["mount", "--bind", settings.name, "/etc/resolv.conf"], check=True)


def answer_to(query):
    """RFC 1035, section 4: the question again, and for an A question its one answer."""
    question = query[12 : query.index(b"\0", 12) + 5]
    (kind,) = struct.unpack("!H", question[-4:-2])
    answers = 1 if kind == TYPE_A else 0
    header = query[:2] + struct.pack("!5H", 0x8180, 1, answers, 0, 0)
    record = ANSWER_TO_NAME_ASKED + struct.pack("!HHIH", TYPE_A, CLASS_IN, 60, 4) + ADDRESS
    return header + question + record * answers


def serve(server, delay_s):
    while True:
        query, client = server.recvfrom(512)
        time.sleep(delay_s)
        server.sendto(answer_to(query), client)


def main():
    bring_loopback_up()
    use_own_server()
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", PORT))
    threading.Thread(target=serve, args=(server, float(sys.argv[1])), daemon=True).start()
    sys.exit(subprocess.run(sys.argv[2:]).returncode)


if __name__ == "__main__":
    main()
