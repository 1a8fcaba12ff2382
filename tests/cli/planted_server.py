# SPDX-License-Identifier: MIT
"""A server with the chat page of bn-serve and answers that a test makes up: thoughts, calls and Markdown, which the built-in model
does not write. A fault can be planted in the page; its policy then permits the page with the fault.

    server = PlantedServer(url of bn-serve)
    server.replies.append([event(content="x"), threading.Event(), LAST])     # a stream, which waits for the event
"""
import base64
import hashlib
import http.server
import json
import re
import threading
import urllib.request

MODEL = {"id": "planted.gguf", "base": False, "template": "qwen3", "max_model_len": 4096}
TIMINGS = {"predicted_per_second": 41.5}


def event(calls=None, **delta):
    """An event of a stream with a piece: content, reasoning_content, or calls as (index, id, name, arguments)."""
    if calls:
        delta["tool_calls"] = [dict({"index": i, "function": dict({"name": name} if name else {}, arguments=text)}, **({"id": given} if given else {}))
                               for i, given, name, text in calls]
    return {"model": "planted.gguf", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def last(reason="stop", **more):
    """The last events: the reason, the receipt, the rate, the numbers of tokens."""
    bn = dict({"receipt": "0" * 32, "chain": "ab", "seed": 7, "end": "end"}, **more)
    return [{"choices": [{"index": 0, "delta": {}, "finish_reason": reason, "bn": bn}], "timings": TIMINGS},
            {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}}]


def said(text, size=5):
    """The events of an answer with this text."""
    return [event(content=text[i:i + size]) for i in range(0, len(text), size)] + last()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def reply(self, status, body, kind="application/json", **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in dict({"Content-Type": kind, "Content-Length": str(len(data))}, **headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        server = self.server
        if self.path == "/":
            self.reply(200, server.page, "text/html; charset=utf-8", **{"Content-Security-Policy": server.policy})
        elif self.path == "/v1/models":
            self.reply(200, {"object": "list", "data": server.models})
        else:
            found = server.receipts.get(self.path.rsplit("/", 1)[-1])
            self.reply(200, found) if found else self.reply(404, {"error": {"message": "no such receipt", "code": None}})

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.requests.append((self.path, body))
        if self.path.endswith("/replay"):
            self.reply(200, server.verdict)
            return
        reply = server.replies.pop(0)
        if isinstance(reply, tuple):
            self.reply(*reply)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            for piece in reply:
                if isinstance(piece, threading.Event):
                    piece.wait()
                else:
                    self.wfile.write(f"data: {json.dumps(piece)}\n\n".encode())
                    self.wfile.flush()
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:  # the page has left
            pass


class PlantedServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, url):
        super().__init__(("127.0.0.1", 0), Handler)
        with urllib.request.urlopen(url + "/") as reply:
            self.true_page, self.true_policy = reply.read().decode(), reply.headers["Content-Security-Policy"]
        self.url = f"http://127.0.0.1:{self.server_port}/"
        self.begin()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def begin(self, fault=None):
        """Forgets what was planted; fault: (old, new), a change of the page."""
        text, policy = self.true_page, self.true_policy
        if fault:
            if text.count(fault[0]) != 1:
                raise RuntimeError(f"the page has {fault[0]!r} {text.count(fault[0])} times")
            text = text.replace(*fault)
            for tag in ("script", "style"):
                digest = hashlib.sha256(re.search(f"<{tag}>(.*?)</{tag}>", text, re.S)[1].encode()).digest()
                policy = re.sub(f"{tag}-src 'sha256-[^']*'", lambda _: f"{tag}-src 'sha256-{base64.b64encode(digest).decode()}'", policy)  # pylint: disable=cell-var-from-loop
        self.page, self.policy = text.encode(), policy
        self.models, self.replies, self.requests, self.receipts, self.verdict = [MODEL], [], [], {}, {}

    def body(self, n=-1):
        """The body of the nth request for an answer."""
        return [body for path, body in self.requests if path.endswith("completions")][n]
