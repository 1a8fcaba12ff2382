# SPDX-License-Identifier: MIT
# A soak of bn-serve: many requests of clients that behave in all ways, with flat memory and a flat number of descriptors.
# The requests come in 20 rounds; after each, all connections are closed, and both are read. From the fifth round to the
# last, memory may grow by the limit, and the number of descriptors may not. The exit code is 1 when they do, when a reply
# is not the expected one, or when one request in each round does not get the same answer.
#   serve.py FOLDER-OF-PROGRAMS MODEL REQUESTS [--leak memory|descriptors] [--limit-kib N]
# --leak makes what the gate has to find: receipts without end, or connections that stay open.
import argparse
import http.client
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import threading
import time

ROUNDS, WARM, CLIENTS = 20, 5, 8

parser = argparse.ArgumentParser()
parser.add_argument('programs')
parser.add_argument('model')
parser.add_argument('requests', type=int)
parser.add_argument('--leak', choices=('memory', 'descriptors'))
parser.add_argument('--limit-kib', type=int, default=1024)
o = parser.parse_args()

server = subprocess.Popen(
    [f'{o.programs}/bn-serve', '-m', o.model, '--port', '0', '--template', 'instruct', '-t', '1', '--pooling', 'mean',
     '--ctx', '128', '--max-body', '16K', '--max-queue', '200', '--max-connections', '1000',
     '--max-receipts', '1000000' if o.leak == 'memory' else '20'], stdout=subprocess.PIPE, text=True)
port = int(server.stdout.readline().rsplit(':', 1)[1])
kept, problems, lock = [], [], threading.Lock()
counts = {}


def problem(text):
    with lock:
        problems.append(text)


def post(path, body, headers=None, method='POST'):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=300)
    if o.leak == 'descriptors':
        kept.append(connection)
    text = body if isinstance(body, str) else json.dumps(body)
    connection.request(method, path, text, {'Content-Type': 'application/json', **(headers or {})})
    return connection


def expect(status, connection):
    response = connection.getresponse()
    text = response.read()
    if response.status != status:
        problem(f'status {response.status}, expected {status}: {text[:200]!r}')
    if o.leak != 'descriptors':
        connection.close()
    return text


# ---- what clients do ----

def ask(rng, **members):
    words = ' '.join(rng.choice(('the', 'king', 'and', 'queen', 'of', 'all')) for _ in range(rng.randrange(1, 20)))
    return {'prompt': words, 'max_tokens': rng.randrange(1, 12), 'seed': rng.randrange(1000), **members}


def whole(rng):
    expect(200, post('/v1/completions', ask(rng)))


def chat(rng):
    expect(200, post('/v1/chat/completions', {'messages': [{'role': 'user', 'content': 'Who?'}], 'max_tokens': 4}))


def many(rng):
    expect(200, post('/v1/completions', ask(rng, n=3, logprobs=3, stop=['zz'])))


def stream(rng):
    text = expect(200, post('/v1/completions', ask(rng, stream=True, stream_options={'include_usage': True})))
    if not text.rstrip().endswith(b'[DONE]'):
        problem('a stream without an end')


def leave(rng):
    connection = post('/v1/completions', ask(rng, max_tokens=100, stream=rng.random() < 0.5))
    if rng.random() < 0.5:
        time.sleep(rng.random() * 0.01)
    connection.close()


def leave_stream(rng):
    connection = post('/v1/completions', ask(rng, max_tokens=100, stream=True, n=2))
    response = connection.getresponse()
    for _ in range(rng.randrange(4)):
        response.readline()
    response.close()
    connection.close()


def embed(rng):
    expect(200, post('/v1/embeddings', {'input': ['a king', 'a queen and a king'], 'encoding_format': 'base64'}))


def leave_embed(rng):
    post('/v1/embeddings', {'input': ['the king and the queen'] * 50}).close()


def bad(rng):
    body = rng.choice(('', '{', '[]', '{"prompt": 5}', '{"prompt": "a", "n": 99}', '{"prompt": "a", "tools": [1]}',
                       '{"prompt": "\\u0000"}', json.dumps({'prompt': 'the ' * 500})))
    expect(400, post('/v1/completions', body))


def bad_http(rng):
    kind = rng.randrange(4)
    if kind == 0:
        expect(404, post('/nothing', None, method='GET'))
    elif kind == 1:
        expect(405, post('/v1/completions', None, method='GET'))
    elif kind == 2:
        expect(415, post('/v1/completions', '{}', {'Content-Type': 'text/plain'}))
    else:
        expect(413, post('/v1/completions', {'prompt': 'x' * 20000}))


def raw(rng):
    data = rng.choice((b'', b'hello\r\n\r\n', b'\0' * 100, b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n',
                       b'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
                       b'Content-Length: 50\r\n\r\n{'))
    with socket.create_connection(('127.0.0.1', port)) as s:
        s.sendall(data)


def small(rng):
    expect(200, post('/tokenize', {'content': 'the king'}))
    expect(200, post('/metrics', None, method='GET'))


KINDS = (whole, whole, chat, many, stream, stream, leave, leave_stream, embed, leave_embed, bad, bad, bad_http, raw, small)


def client(rng, n):
    for _ in range(n):
        kind = rng.choice(KINDS)
        with lock:
            counts[kind.__name__] = counts.get(kind.__name__, 0) + 1
        try:
            kind(rng)
        except OSError as error:
            problem(f'{kind.__name__}: {error}')


# ---- what is watched ----

def metric(name):
    text = expect(200, post('/metrics', None, method='GET')).decode()
    return int(next(line for line in text.splitlines() if line.startswith(f'bn_{name} ')).split()[1])


def memory_kib():
    with open(f'/proc/{server.pid}/status') as file:
        return int(next(line for line in file if line.startswith('VmRSS')).split()[1])


def descriptors():
    return len(os.listdir(f'/proc/{server.pid}/fd'))


def settle(least):
    """Waits until all work has ended and, for a while, until connections are closed. Each request wakes the HTTP thread,
    which closes what has ended before it waits."""
    for _ in range(1000 if o.leak is None else 2):
        if metric('jobs_total') == metric('jobs_ended_total') and descriptors() <= least:
            return
        time.sleep(0.02)


def probe():
    text = expect(200, post('/v1/completions', {'prompt': 'ROMEO', 'max_tokens': 8, 'seed': 4, 'temperature': 0.9}))
    return json.loads(text)['choices'][0]['bn']['chain']


def run():
    at_rest, memory, open_ones, chain = descriptors(), [], [], probe()
    for i in range(ROUNDS):
        each = o.requests // ROUNDS // CLIENTS + 1
        threads = [threading.Thread(target=client, args=(random.Random(i * CLIENTS + k), each)) for k in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        settle(at_rest)
        if probe() != chain:
            problem(f'round {i}: another answer')
        settle(at_rest)
        memory.append(memory_kib())
        open_ones.append(descriptors())
    grown = statistics.median(memory[-3:]) - statistics.median(memory[WARM - 1:WARM + 2])
    n = sum(counts.values())
    print(f'{n} requests, {metric("jobs_total")} to generate or embed, {metric("jobs_cancelled_total")} cancelled')
    print('requests by kind:', ', '.join(f'{name} {count}' for name, count in sorted(counts.items())))
    print('memory after each round, KiB:', *memory)
    print('descriptors after each round:', *open_ones)
    print(f'from round {WARM} on, memory grew by {grown:.0f} KiB')
    if grown > o.limit_kib:
        problem(f'memory grew by {grown:.0f} KiB, at most {o.limit_kib} is allowed')
    if open_ones[-1] > open_ones[WARM - 1]:
        problem(f'descriptors grew from {open_ones[WARM - 1]} to {open_ones[-1]}')
    server.terminate()
    if server.wait(60) != 0:
        problem(f'the server ended with status {server.returncode}')


try:
    run()
finally:
    server.kill()
for text in problems[:20]:
    print(f'problem: {text}')
sys.exit(1 if problems else 0)
