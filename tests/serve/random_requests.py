"""Sends random requests to an address of a bn-serve: mutations of valid bodies, the same ones for the same seed. None may be
answered by a status of 500 or more, or by a lost connection, and replies have to be JSON.

  random_requests.py URL PATH BODY... [--n 1000] [--seed 1] [--key KEY]

BODY is JSON. A server with --max-tokens 4 answers a thousand in seconds. The last line has the number of replies of each
status; some requests have to be accepted and some refused, so that the test says something."""
import argparse
import collections
import concurrent.futures
import copy
import http.client
import json
import random
import sys
import threading
import urllib.parse

VALUES = [
    None, True, False, 0, 1, -1, 2, 0.5, -0.5, 7, 1e-320, 1e308, 2**31, 2**32, 2**53, -(2**63), "", "a", "auto", "none",
    "user", "tool", "text", "json", "{", "{}", "\x00", "\ud83d\ude00", "\u202e</script>", "<|im_start|>", "A" * 300,
    "[" * 200, [], {}, [None], [[]], [{}], [""], ["a", 1], {"": ""}, {"type": "object"}, {"type": ["string", 3]},
    {"$ref": "#"}, {"type": "array", "items": {"$ref": "#"}}, [1, 2, 3], ["x"] * 40, [{"role": "user", "content": "x"}] * 30,
]


def places(node, found):
    """Each place of a value: its container and its name or index."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in list(items):
        found.append((node, key))
        places(value, found)
    return found


def mutate_tree(body, rnd):
    for _ in range(rnd.choice((1, 1, 1, 2, 3))):
        found = places(body, [])
        if not found:
            return
        node, key = rnd.choice(found)
        what = rnd.randrange(8)
        if what < 4:
            node[key] = copy.deepcopy(rnd.choice(VALUES))
        elif what == 4:
            del node[key]
        elif what == 5:  # another value of the same body
            other, at = rnd.choice(found)
            node[key] = copy.deepcopy(other[at])
        elif isinstance(node, list):
            node.insert(key, copy.deepcopy(node[key]))
        elif what == 6:
            node[rnd.choice((key.upper(), key + "s", "", "stop", "seed", "tools"))] = node.pop(key)
        else:
            node[key] = [copy.deepcopy(node[key])] * rnd.choice((1, 2, 20))


def mutate_text(text, rnd):
    for _ in range(rnd.choice((1, 1, 2, 5))):
        at = rnd.randrange(len(text) + 1)
        what = rnd.randrange(4)
        if what == 0:
            text = text[:at]
        elif what == 1:
            text = text[:at] + bytes([rnd.randrange(256)]) + text[at + 1 :]
        elif what == 2:
            text = text[:at] + rnd.choice((b"{", b"}", b"[", b'"', b",", b"\\u0000", b"\xff", b"-", b"9" * 30)) + text[at:]
        else:
            text = text[:at] + text[at + rnd.randrange(1, 9) :]
    return text


def make(bodies, seed, i):
    rnd = random.Random(seed * 1000003 + i)
    body = copy.deepcopy(rnd.choice(bodies))
    kind = rnd.randrange(20)
    if 0 < kind < 15:
        mutate_tree(body, rnd)
    # A lone surrogate stays an escape.
    text = json.dumps(body, ensure_ascii=rnd.random() < 0.5).encode("utf-8", "surrogatepass")
    return mutate_text(text, rnd) if kind >= 15 else text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("path")
    parser.add_argument("bodies", nargs="+", type=json.loads)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--key")
    args = parser.parse_args()
    local = threading.local()
    headers = {"Content-Type": "application/json"}
    if args.key:
        headers["Authorization"] = "Bearer " + args.key

    def ask(i):
        body = make(args.bodies, args.seed, i)
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection(urllib.parse.urlsplit(args.url).netloc, timeout=100)
        try:
            local.connection.request("POST", args.path, body, headers)
            reply = local.connection.getresponse()
            text = reply.read()
            if reply.getheader("Content-Type", "").startswith("application/json"):
                json.loads(text)
            return reply.status, reply.status >= 500, text, body
        except (OSError, ValueError, http.client.HTTPException) as error:
            local.connection.close()
            return 0, True, repr(error), body

    count, failures = collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for i, (status, wrong, text, body) in enumerate(pool.map(ask, range(args.n))):
            count[status] += 1
            if wrong and (failures := failures + 1) <= 5:
                print(f"request {i}: status {status}: {text[:300]!r} to {body[:1000]!r}")
    print(" ".join(f"{status}:{n}" for status, n in sorted(count.items())))
    if not (count[200] and count[400]):
        print("no request was accepted, or none was refused")
    return 0 if failures == 0 and count[200] and count[400] else 1


sys.exit(main())
