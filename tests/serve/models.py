# SPDX-License-Identifier: MIT
# Clients of a bn-serve with several models, all at once: each answer is that of its model alone. Prints "pass TITLE" or
# "fail TITLE: REASON".
#   models.py PORT MOST-OPEN MODEL=CHAIN...
import http.client
import json
import sys
import threading

port, most = int(sys.argv[1]), int(sys.argv[2])
chains = dict(pair.split('=') for pair in sys.argv[3:])
REQUEST = {'prompt': 'ROMEO:', 'max_tokens': 24, 'temperature': 0.8, 'top_k': 40, 'seed': 7}
wrong, opened = [], []


def ask(method, path, body=None):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=300)
    connection.request(method, path, json.dumps(body) if body else None, {'Content-Type': 'application/json'})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


def last_event(text):
    events = [line[6:] for line in text.splitlines() if line.startswith('data: ') and 'DONE' not in line]
    return json.loads(next(e for e in events if '"chain"' in e))


def client(number):
    names = list(chains)
    for i in range(6):
        name, stream = names[(number + i) % len(names)], i % 3 == 1
        status, text = ask('POST', '/v1/completions', {**REQUEST, 'model': name, 'stream': stream})
        if status != 200:
            wrong.append(f'{name}: status {status} {text[:200]}')
            continue
        document = last_event(text) if stream else json.loads(text)
        if document['choices'][0]['bn']['chain'] != chains[name]:
            wrong.append(f'{name}: another chain, stream {stream}')


def watch(done):
    while not done.is_set():
        models = json.loads(ask('GET', '/v1/status')[1])['models']
        opened.append(sum(m['state'] == 'open' for m in models))


done = threading.Event()
threads = [threading.Thread(target=client, args=[i]) for i in range(16)]
watcher = threading.Thread(target=watch, args=[done])
for t in [*threads, watcher]:
    t.start()
for t in threads:
    t.join(600)
done.set()
watcher.join()
stuck = sum(t.is_alive() for t in threads)
verdict = f': {stuck} clients are stuck; {wrong[:3]}' if stuck or wrong else ''
print(f'{"fail" if verdict else "pass"} 16 clients of {len(chains)} models get the answers of each alone{verdict}')
print(f'{"pass" if max(opened) <= most else "fail"} and at most {most} of them are open at a time')
sys.stdout.flush()
if stuck:
    sys.exit(1)
