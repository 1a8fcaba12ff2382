#!/usr/bin/env python3
"""Usage: server.py FOLDER [PEM]: serves the files of a folder on a free port of 127.0.0.1, by HTTPS with a key and
certificate, and prints the port."""
import functools
import http.server
import ssl
import sys

server = http.server.ThreadingHTTPServer(
    ("127.0.0.1", 0), functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
)
if len(sys.argv) > 2:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[2])
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
