# SPDX-License-Identifier: MIT
# A soak of bn-serve: many requests of clients that come, go, break off and send garbage, by all protocols, with flat memory
# and a flat number of descriptors. The requests come in 20 rounds; after each, all connections are closed, and both are read.
# From the fifth round to the last, memory may grow by the limit, and the number of descriptors may not. The exit code is 1
# when they do, when a reply is not the expected one, or when one question, asked by all clients and protocols over and over,
# does not get the same chain.
#   serve.py FOLDER-OF-PROGRAMS MODEL REQUESTS [--seconds S] [--clients N] [--leak memory|descriptors|answer] [--limit-kib N]
# --seconds: as many requests as fit. --leak makes what the gate has to find: receipts without end, connections that stay
# open, another answer to the question.
import argparse
import ctypes
import http.client
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROUNDS, WARM = 20, 5

parser = argparse.ArgumentParser()
parser.add_argument('programs')
parser.add_argument('model')
parser.add_argument('requests', type=int)
parser.add_argument('--seconds', type=int)
parser.add_argument('--clients', type=int, default=8)
parser.add_argument('--leak', choices=('memory', 'descriptors', 'answer'))
parser.add_argument('--limit-kib', type=int, default=1024)
o = parser.parse_args()

folder = tempfile.TemporaryDirectory()
# The kernel fills huge pages of the caches later, when it finds time: that is no growth of the program. 41: PR_SET_THP_DISABLE;
# programs inherit it.
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)
server = subprocess.Popen(
    [f'{o.programs}/bn-serve', '-m', o.model, '--port', '0', '--template', 'instruct', '-t', '1', '--pooling', 'mean',
     '--ctx', '128', '--max-body', '16K', '--max-queue', '200', '--max-connections', '1000',
     *(('--max-receipts', '1000000') if o.leak == 'memory' else ('--receipts', folder.name, '--max-receipts', '50'))],
    stdout=subprocess.PIPE, text=True)
port = int(server.stdout.readline().rsplit(':', 1)[1])
kept, problems, lock = [], [], threading.Lock()
counts, chain = {}, b""


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


# ---- the other protocols: the same questions, whole, as streams, and left ----

WHO = [{'role': 'user', 'content': 'Who is there?'}]
PROTOCOLS = {'/v1/chat/completions': lambda n: {'messages': WHO, 'max_tokens': n},
             '/v1/responses': lambda n: {'input': 'Who is there?', 'max_output_tokens': n},
             '/v1/messages': lambda n: {'model': 'bn', 'messages': WHO, 'max_tokens': n},
             '/api/chat': lambda n: {'messages': WHO, 'options': {'num_predict': n}},
             '/api/generate': lambda n: {'prompt': 'Who is there?', 'options': {'num_predict': n}}}


def question(path, n, seed, stream):
    body = {**PROTOCOLS[path](n), 'stream': stream}
    body.get('options', body).update(seed=seed, temperature=0.7, top_k=30, top_p=0.9, min_p=0.01, repeat_penalty=1.1)
    return post(path, body)


def same(rng):
    """One question by any protocol, whole or as a stream: always the same chain."""
    path = rng.choice(list(PROTOCOLS))
    text = expect(200, question(path, 8, 6 if o.leak == 'answer' and rng.random() < 0.5 else 5, rng.random() < 0.5))
    if chain not in text:
        problem(f'{path}: another answer: {text[-300:]!r}')


def any_protocol(rng):
    expect(200, question(rng.choice(list(PROTOCOLS)), rng.randrange(1, 12), rng.randrange(1000), rng.random() < 0.5))


def leave_any(rng):
    connection = question(rng.choice(list(PROTOCOLS)), 100, rng.randrange(1000), rng.random() < 0.5)
    if rng.random() < 0.5:
        time.sleep(rng.random() * 0.01)
    elif rng.random() < 0.5:
        connection.getresponse().readline()
    connection.close()


def count(rng):
    expect(200, post('/v1/messages/count_tokens', {'model': 'bn', 'messages': WHO}))
    expect(200, post('/api/tags', None, method='GET'))
    expect(200, post('/api/embed', {'input': 'a king'}))


def receipt(rng):
    text = expect(200, question('/v1/messages', 2, 5, False))
    name = json.loads(text)['bn']['receipt']
    connection = post(f'/v1/receipts/{name}', None, method='GET')
    response = connection.getresponse()
    response.read()
    if response.status not in (200, 404):  # others may have pushed it out
        problem(f'a receipt: status {response.status}')
    connection.close()


def bad(rng):
    body = rng.choice(('', '{', '[]', '{"prompt": 5}', '{"prompt": "a", "n": 99}', '{"prompt": "a", "tools": [1]}',
                       '{"prompt": "\\u0000"}', json.dumps({'prompt': 'the ' * 500})))
    expect(400, post('/v1/completions', body))
    expect(400, post(rng.choice(list(PROTOCOLS)), rng.choice(('', '{', '[1]', '{"messages": 5, "input": 5, "prompt": 5}'))))


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


KINDS = (whole, whole, chat, many, stream, stream, leave, leave_stream, embed, leave_embed, bad, bad, bad_http, raw, small,
         same, same, same, any_protocol, any_protocol, leave_any, leave_any, count, receipt)


def client(rng, n, until):
    for _ in range(n):
        if until is not None and time.monotonic() > until:
            return
        kind = rng.choice(KINDS)
        with lock:
            counts[kind.__name__] = counts.get(kind.__name__, 0) + 1
        try:
            kind(rng)
        except (OSError, http.client.HTTPException) as error:
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
    for _ in range(2 if o.leak in ('memory', 'descriptors') else 1000):
        if metric('jobs_total') == metric('jobs_ended_total') and descriptors() <= least:
            return
        time.sleep(0.02)


def fill(n):
    """Past responses are kept up to a bound, 4096: a long soak begins there."""
    for _ in range(n):
        expect(200, question('/v1/responses', 12, 5, False))


def run():
    global chain
    at_rest, memory, open_ones = descriptors(), [memory_kib()], [descriptors()]
    chain = json.loads(expect(200, question('/v1/messages', 8, 5, False)))['bn']['chain'].encode()
    if o.seconds is not None and o.seconds >= 600:
        threads = [threading.Thread(target=fill, args=(4200 // o.clients + 1,)) for _ in range(o.clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f'{memory_kib()} KiB with all the past responses that are kept', flush=True)
    began = time.monotonic()
    for i in range(ROUNDS):
        each = o.requests // ROUNDS // o.clients + 1
        until = began + o.seconds * (i + 1) / ROUNDS if o.seconds is not None else None
        threads = [threading.Thread(target=client, args=(random.Random(i * o.clients + k), 10**9 if until else each, until))
                   for k in range(o.clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        settle(at_rest)
        memory.append(memory_kib())
        open_ones.append(descriptors())
        if o.seconds is not None:
            print(f'{time.monotonic() - began:.0f} s: {sum(counts.values())} requests, {memory[-1]} KiB, {open_ones[-1]} '
                  f'descriptors, {len(problems)} problems', flush=True)
    grown = statistics.median(memory[-3:]) - statistics.median(memory[WARM:WARM + 3])
    n = sum(counts.values())
    print(f'{n} requests, {metric("jobs_total")} to generate or embed, {metric("jobs_cancelled_total")} cancelled')
    print('requests by kind:', ', '.join(f'{name} {count}' for name, count in sorted(counts.items())))
    print('memory at the start and after each round, KiB:', *memory)
    print('descriptors at the start and after each round:', *open_ones)
    print(f'from round {WARM} on, memory grew by {grown:.0f} KiB')
    if grown > o.limit_kib:
        problem(f'memory grew by {grown:.0f} KiB, at most {o.limit_kib} is allowed')
    if open_ones[-1] > open_ones[WARM]:
        problem(f'descriptors grew from {open_ones[WARM]} to {open_ones[-1]}')
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
