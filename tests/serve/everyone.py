# SPDX-License-Identifier: MIT
# Asks a bn-serve by 32 clients at once, through every API that generates: what has the same tokens as its prompt and the same
# settings has the same chain as alone, whichever API asked, streamed or not. It prints "pass TITLE" or "fail TITLE: REASON"
# for each API, then the number of requests that were sent.
#   everyone.py URL [--spoil]       --spoil: one client asks for something else, which has to be noticed
import http.client
import json
import sys
import threading
import urllib.parse

url = urllib.parse.urlsplit(sys.argv[1])
spoil = '--spoil' in sys.argv
N_CLIENTS, N_EACH, N_TOKENS = 32, 6, 24
SYSTEM = 'You are an old king who answers in verse, slowly, and with many words about the sea.'
PROMPTS = [f'{start} {i}?' for i, start in enumerate(
    ['Who is there', 'Who is there, and what does he say to the queen', 'What news', 'Where is my horse'])]
SETTINGS = {'temperature': 0.7, 'top_k': 20, 'top_p': 0.9}


def turns(i, system=True):
    return [{'role': 'system', 'content': SYSTEM}] * system + [{'role': 'user', 'content': PROMPTS[i]}]


# Each makes a body of the prompt's number, its tokens and a seed.
APIS = {
    '/v1/chat/completions': lambda i, ids, seed: {'messages': turns(i), 'max_tokens': N_TOKENS, 'seed': seed, **SETTINGS},
    '/v1/completions': lambda i, ids, seed: {'prompt': ids, 'max_tokens': N_TOKENS, 'seed': seed, **SETTINGS},
    '/v1/responses': lambda i, ids, seed: {'instructions': SYSTEM, 'input': turns(i, False), 'max_output_tokens': N_TOKENS,
                                           'seed': seed, **SETTINGS},
    '/v1/messages': lambda i, ids, seed: {'model': 'bn', 'system': SYSTEM, 'messages': turns(i, False), 'max_tokens': N_TOKENS,
                                          'seed': seed, **SETTINGS},
    '/api/chat': lambda i, ids, seed: {'model': 'bn', 'messages': turns(i),
                                       'options': {'num_predict': N_TOKENS, 'seed': seed, **SETTINGS}},
    '/api/generate': lambda i, ids, seed: {'model': 'bn', 'system': SYSTEM, 'prompt': PROMPTS[i],
                                           'options': {'num_predict': N_TOKENS, 'seed': seed, **SETTINGS}},
}
n_requests = 0
lock = threading.Lock()


def evidence(value):
    """The member "bn" of a document, wherever it is."""
    if isinstance(value, dict):
        if isinstance(value.get('bn'), dict) and 'chain' in value['bn']:
            return value['bn']
        value = list(value.values())
    found = [evidence(v) for v in value] if isinstance(value, list) else []
    return next((f for f in found if f), None)


def ask(connection, path, body):
    """The evidence of an answer; of a stream, from its events or lines."""
    global n_requests
    with lock:
        n_requests += 1
    connection.request('POST', path, json.dumps(body), {'Content-Type': 'application/json', 'anthropic-version': '2023-06-01'})
    reply = connection.getresponse()
    text = reply.read().decode()
    if reply.status != 200:
        raise RuntimeError(f'status {reply.status}: {text[:300]}')
    lines = [line.removeprefix('data: ') for line in text.split('\n')]
    found = evidence([json.loads(line) for line in lines if line.startswith('{')])
    if not found:
        raise RuntimeError(f'no evidence in {text[:300]}')
    return found


def connect():
    return http.client.HTTPConnection(url.hostname, url.port, timeout=300)


# Alone, by one API; the receipts have the tokens.
alone, ids = [], []
for i in range(len(PROMPTS)):
    c = connect()
    bn = ask(c, '/v1/chat/completions', {**APIS['/v1/chat/completions'](i, None, i), 'stream': False})
    c.request('GET', '/v1/receipts/' + bn['receipt'])
    receipt = json.loads(c.getresponse().read())
    alone.append(bn['chain'])
    ids.append(receipt['predicate']['request']['prompt_ids'])
assert len(set(alone)) == len(PROMPTS)

faults = {path: [] for path in APIS}
answers = dict.fromkeys(APIS, 0)
together = threading.Barrier(N_CLIENTS)


def client(number):
    connection = connect()
    together.wait()
    for k in range(N_EACH):
        path = list(APIS)[(number + k) % len(APIS)]
        i = (number // len(APIS) + k) % len(PROMPTS)
        seed = i + (spoil and number == 7 and k == 3)
        try:
            bn = ask(connection, path, {**APIS[path](i, ids[i], seed), 'stream': (number + k // 2) % 2 == 0})
            wrong = None if bn['chain'] == alone[i] else f'another chain than alone of prompt {i}'
        except Exception as e:  # pylint: disable=broad-except
            wrong = f'{type(e).__name__}: {e}'
            connection = connect()
        with lock:
            answers[path] += 1
            if wrong:
                faults[path].append(wrong)


threads = [threading.Thread(target=client, args=(n,)) for n in range(N_CLIENTS)]
for t in threads:
    t.start()
for t in threads:
    t.join()
for path, wrong in faults.items():
    title = f'{path} has the chains of {N_CLIENTS} clients that it has alone'
    print(f'fail {title}: {wrong[0]}' if wrong or not answers[path] else f'pass {title}')
print(f'requests {n_requests}')
sys.exit(any(faults.values()))
