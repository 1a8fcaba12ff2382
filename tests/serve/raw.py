"""Sends bytes to a bn-serve and prints what comes back, for clients that no library is: raw.py PORT BYTES [FROM-ADDRESS].
Escapes in BYTES are Python's. The result is the reply as text, or "closed"."""
import socket
import sys

port, data = int(sys.argv[1]), sys.argv[2].encode().decode("unicode_escape").encode("latin-1")
source = (sys.argv[3], 0) if len(sys.argv) > 3 else None
got = b""
try:
    s = socket.create_connection(("127.0.0.1", port), 100, source)
    s.sendall(data)
    while True:
        more = s.recv(65536)
        if not more:
            break
        got += more
except OSError:
    pass
print(got.decode("latin-1") or "closed")
