# SPDX-License-Identifier: MIT
# bn-serve under load: the same answers alone and among others, clients that leave and signals in each phase of an answer,
# limits, embeddings next to answers. It prints "pass TITLE" or "fail TITLE: REASON" for each test.
#   load.py FOLDER-OF-PROGRAMS MODEL WORK-FOLDER
import base64
import http.client
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time

programs, model = sys.argv[1:3]
work = sys.argv[3]
LONG = 'the king and the queen of this land are here and '


class Server:
    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [f'{programs}/bn-serve', '-m', model, '--port', '0', '--template', 'instruct', '-t', '1',
             '--pooling', 'mean', *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = int(self.process.stdout.readline().rsplit(':', 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def metric(self, name):
        text = Request(self, 'GET', '/metrics').text()
        return int(next(line for line in text.splitlines() if line.startswith(f'bn_{name} ')).split()[1])


class Request:
    """One request on a connection of its own."""

    def __init__(self, server, method, path, body=None, key=None):
        self.connection = http.client.HTTPConnection('127.0.0.1', server.port, timeout=200)
        headers = {'Content-Type': 'application/json', **({'X-Api-Key': key} if key else {})}
        self.connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        self.response = None
        self.lines = []

    def open(self):
        self.response = self.response or self.connection.getresponse()
        return self.response

    @property
    def status(self):
        return self.open().status

    def text(self):
        text = self.open().read().decode()
        self.connection.close()
        return text

    def json(self):
        return json.loads(self.text())

    def event(self):
        """The next event of a stream: a document, 'DONE', or None at its end."""
        for line in self.open():
            if line.startswith(b'data: '):
                return 'DONE' if line[6:].strip() == b'[DONE]' else json.loads(line[6:])
        return None

    def leave(self):
        if self.response is not None:
            self.response.close()
        self.connection.close()


def complete(server, path='/v1/completions', key=None, **members):
    return Request(server, 'POST', path, members, key)


def answer(server, request):
    """What an answer is, without what differs between requests: text, reason, chain, and tokens by its receipt."""
    name = request.open().getheader('X-BN-Receipt')
    if request.open().getheader('Content-Type').startswith('text/event-stream'):
        text, last, usage = '', None, None
        while (event := request.event()) not in ('DONE', None):
            for choice in event['choices']:
                text += choice['text'] if 'text' in choice else choice['delta'].get('content', '')
                last = choice
            usage = event.get('usage') or usage
    else:
        document = request.json()
        last, usage = document['choices'][0], document['usage']
        text = last['text'] if 'text' in last else last['message']['content']
    result = Request(server, 'GET', f'/v1/receipts/{name}').json()['predicate']['result']
    assert result['chain'] == last['bn']['chain'], 'the receipt has another chain'
    cached = usage['prompt_tokens_details']['cached_tokens']
    return (text, last['finish_reason'], last['bn']['chain'], tuple(result['ids'])), cached


def wait_for(condition, what):
    for _ in range(20000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError(f'never: {what}')


def equal(got, want):
    assert got == want, f'{got!r}, expected {want!r}'


def test(title):
    def run(function):
        try:
            function()
            print(f'pass {title}', flush=True)
        except Exception as error:
            print(f'fail {title}: {type(error).__name__}: {str(error)[:300]}', flush=True)
    return run


# ---- the same alone and among others ----

def probes():
    sampling = {'max_tokens': 30, 'temperature': 0.9, 'top_k': 50, 'seed': 11}
    for stream in (False, True):
        extra = {'stream': stream, **({'stream_options': {'include_usage': True}} if stream else {})}
        yield '/v1/completions', {'prompt': LONG * 4 + str(stream), **sampling, **extra}
        yield '/v1/chat/completions', {'messages': [{'role': 'system', 'content': LONG * 3},
                                                    {'role': 'user', 'content': f'Who? {stream}'}],
                                       **sampling, **extra}


def ask_probes(server):
    """Each probe twice: the second time its beginning has been evaluated."""
    return [[answer(server, complete(server, path, **body)) for _ in range(2)] for path, body in probes()]


def other(server, i, stop):
    while not stop.is_set():
        body = {'max_tokens': 20 + i % 7 * 9, 'seed': i, 'stream': i % 3 == 0}
        if i % 5 == 0:
            request = complete(server, '/v1/embeddings', input=LONG * (1 + i % 4))
        elif i % 2 == 0:
            request = complete(server, prompt=LONG * (i % 6) + str(i), **body)
        else:
            request = complete(server, '/v1/chat/completions',
                               messages=[{'role': 'user', 'content': LONG * (i % 4) + str(i)}], **body)
        request.text()


def same_among(n, *arguments):
    with Server(*arguments) as server:
        alone = ask_probes(server)
    with Server(*arguments) as server:
        stop = threading.Event()
        threads = [threading.Thread(target=other, args=(server, i, stop)) for i in range(n)]
        for thread in threads:
            thread.start()
        wait_for(lambda: server.metric('generations_total') >= n, 'the others are answered')
        among = ask_probes(server)
        stop.set()
        for thread in threads:
            thread.join()
        passes, tokens = server.metric('passes_total'), server.metric('generated_tokens_total')
    assert tokens > passes, 'the answers were not generated together'
    for one, two in zip(alone, among):
        (cold, n_cold), (warm, n_warm) = one
        assert n_warm > n_cold, 'the second time nothing was cached'
        equal(warm, cold)
        equal([result for result, _ in two], [cold, cold])


@test('answers are the same alone and among 32 others')
def _():
    same_among(32, '--sequences', '6', '--batch', '48', '--max-queue', '200')


@test('also when prompts slow nobody down')
def _():
    same_among(8, '--sequences', '4', '--max-slowdown', '1', '--max-queue', '200')


# ---- clients that leave ----

def ended(server):
    return server.metric('jobs_total') == server.metric('jobs_ended_total')


def leaves_while_waiting(stream):
    with Server('--sequences', '1') as server:
        first = complete(server, prompt='a', max_tokens=400, temperature=0, seed=1)
        wait_for(lambda: server.metric('jobs_total') == 1, 'the first is accepted')
        second = complete(server, prompt='b', max_tokens=5, stream=stream)
        wait_for(lambda: server.metric('jobs_total') == 2, 'the second is accepted')
        second.leave()
        wait_for(lambda: server.metric('jobs_cancelled_total') == 1, 'the second is cancelled')
        equal(first.json()['usage']['completion_tokens'], 400)
        wait_for(lambda: ended(server), 'all have ended')
        equal(server.metric('generations_total'), 1)


def leaves_in_the_prompt(stream):
    for _ in range(8):
        with Server('--sequences', '2', '--max-slowdown', '1') as server:
            first = complete(server, prompt='a', max_tokens=900, temperature=0, stream=True)
            first.event()
            before = server.metric('passes_total')
            second = complete(server, prompt=LONG * 60, max_tokens=300, stream=stream)
            wait_for(lambda: server.metric('jobs_total') == 2 and server.metric('passes_total') > before + 3,
                     'passes are made')
            second.leave()
            wait_for(lambda: server.metric('jobs_cancelled_total') == 1, 'it is cancelled')
            while first.event() not in ('DONE', None):
                pass
            wait_for(lambda: ended(server), 'all have ended')
            # Tokens of the first alone: the second was in its prompt. Else it was too fast, and is tried again.
            if server.metric('generated_tokens_total') == 900:
                return
    raise AssertionError('the prompt was never found half evaluated')


def leaves_in_the_answer(stream):
    with Server('--sequences', '2') as server:
        request = complete(server, prompt='a', max_tokens=1000, stream=stream, temperature=0)
        if stream:
            request.event()
        else:
            wait_for(lambda: server.metric('passes_total') > 20, 'passes are made')
        request.leave()
        wait_for(lambda: server.metric('jobs_cancelled_total') == 1, 'it is cancelled')
        assert 0 < server.metric('generated_tokens_total') < 1000


for streamed in (False, True):
    how = 'streamed' if streamed else 'whole'
    test(f'a client that leaves while it waits ends its work alone ({how})')(lambda: leaves_while_waiting(streamed))
    test(f'so does one whose prompt is evaluated ({how})')(lambda: leaves_in_the_prompt(streamed))
    test(f'and one that is answered ({how})')(lambda: leaves_in_the_answer(streamed))


@test('and one whose texts are embedded')
def _():
    with Server() as server:
        request = complete(server, '/v1/embeddings', input=[LONG * 40] * 500)
        wait_for(lambda: server.metric('passes_total') > 5, 'passes are made')
        request.leave()
        wait_for(lambda: server.metric('jobs_cancelled_total') == 1, 'it is cancelled')
        equal(complete(server, '/v1/embeddings', input='x').status, 200)


# ---- signals ----

def code(server):
    return server.process.wait(timeout=100)


@test('SIGTERM ends an idle server, with connections that are open')
def _():
    with Server() as server:
        open_ones = [Request(server, 'GET', '/health') for _ in range(3)]
        for request in open_ones:
            request.open().read()
        server.signal()
        equal(code(server), 0)


def stopped_while_busy(stream):
    """One answer runs, one prompt comes in, one waits: the first two are finished, the third is refused."""
    with Server('--sequences', '2', '--max-slowdown', '1') as server:
        first = complete(server, prompt='a', max_tokens=900, stream=True, temperature=0)
        first.event()
        second = complete(server, prompt=LONG * 40, max_tokens=10, stream=stream, temperature=0)
        wait_for(lambda: server.metric('jobs_total') == 2, 'the second is accepted')
        before = server.metric('passes_total')
        wait_for(lambda: server.metric('passes_total') > before + 1, 'the second is started')
        third = complete(server, prompt='c', max_tokens=10, stream=stream)
        wait_for(lambda: server.metric('jobs_total') == 3, 'all are accepted')
        server.signal()
        last = ''
        while (event := first.event()) is not None:
            last = event
        equal(last, 'DONE')
        if stream:
            equal(second.status, 200)
            text = second.text()
            assert '"finish_reason":"length"' in text and text.rstrip().endswith('[DONE]'), text[-200:]
            assert 'the server is stopping' in third.text()
        else:
            equal(second.json()['usage']['completion_tokens'], 10)
            equal((third.status, third.open().getheader('Retry-After')), (503, '1'))
        equal(code(server), 0)


for streamed in (False, True):
    how = 'streamed' if streamed else 'whole'
    test(f'SIGTERM finishes what runs and refuses what waits ({how})')(lambda: stopped_while_busy(streamed))


@test('what runs longer than --grace is ended')
def _():
    with Server('--grace', '1s', '--sequences', '1') as server:
        request = complete(server, prompt=['a'] * 16, max_tokens=1000, temperature=0)
        wait_for(lambda: server.metric('passes_total') > 3, 'passes are made')
        server.signal()
        equal(request.status, 503)
        equal(code(server), 0)


@test('a server that embeds finishes that')
def _():
    with Server() as server:
        request = complete(server, '/v1/embeddings', input=[LONG * 20] * 8)
        wait_for(lambda: server.metric('passes_total') > 1, 'passes are made')
        server.signal()
        equal(len(request.json()['data']), 8)
        equal(code(server), 0)


# ---- limits ----

@test('a flood leaves places in the queue for others, and gets a time to try again')
def _():
    path = os.path.join(work, 'keys')
    keys = ['0123456789abcdef-one', '0123456789abcdef-two']
    with open(path, 'w') as file:
        file.write('\n'.join(keys))
    os.chmod(path, 0o600)
    with Server('--sequences', '1', '--max-queue', '8', '--api-key-file', path) as server:
        flood = [complete(server, key=keys[0], prompt='a', max_tokens=900, stream=True) for _ in range(12)]
        statuses = [request.status for request in flood]
        equal((statuses.count(200), statuses.count(429)), (7, 5))
        refused = next(request for request in flood if request.status == 429)
        assert int(refused.open().getheader('Retry-After')) >= 1
        equal(refused.json()['error']['code'], 'queue_full')
        newcomer = complete(server, key=keys[1], prompt='a', max_tokens=5, stream=True)
        equal(newcomer.status, 200)
        # It is answered before the flood.
        newcomer.text()
        assert sum(request.open().isclosed() for request in flood) < 7
        for request in flood:
            request.leave()


@test('answers end at --max-time, and their receipts replay')
def _():
    with Server('--max-time', '1s', '--sequences', '16') as server:
        document = complete(server, prompt=['a'] * 16, max_tokens=1000, temperature=0).json()
        last = document['choices'][15]
        equal(last['finish_reason'], 'length')
        assert document['usage']['completion_tokens'] < 16000, 'all were generated within a second'
        path = os.path.join(work, 'receipt.json')
        with open(path, 'w') as file:
            file.write(Request(server, 'GET', f"/v1/receipts/{last['bn']['receipt']}").text())
        subprocess.run([f'{programs}/bn-verify-receipt', path, '--model', model, '--replay'], check=True,
                       stdout=subprocess.DEVNULL)


@test('one that has not begun until then gets a time to try again')
def _():
    with Server('--max-time', '1s', '--sequences', '1') as server:
        request = complete(server, prompt=['a'] * 16, max_tokens=1000, temperature=0)
        equal(request.status, 429)
        assert int(request.open().getheader('Retry-After')) >= 1
        assert '--max-time' in request.json()['error']['message']
        equal(complete(server, prompt='a', max_tokens=1).status, 200)


@test('a prompt that comes in is evaluated once for all who begin with it')
def _():
    with Server('--sequences', '6') as server:
        requests = [complete(server, prompt=LONG * 30 + str(i), max_tokens=4, seed=i) for i in range(6)]
        usages = [request.json()['usage'] for request in requests]
        cached = sorted(usage['prompt_tokens_details']['cached_tokens'] for usage in usages)
        n = usages[0]['prompt_tokens']
        assert cached[1] > n - 20, f'{cached} of {n}'


@test('a short request between two turns does not take the place of a conversation')
def _():
    with Server('--sequences', '3') as server:
        messages = [{'role': 'user', 'content': LONG * 20}]
        first = complete(server, '/v1/chat/completions', messages=messages, max_tokens=8).json()
        for title in ('A title, please', 'The king'):
            complete(server, prompt=title, max_tokens=4).text()
        messages += [first['choices'][0]['message'], {'role': 'user', 'content': 'And then?'}]
        second = complete(server, '/v1/chat/completions', messages=messages, max_tokens=8).json()
        cached = second['usage']['prompt_tokens_details']['cached_tokens']
        assert cached >= first['usage']['prompt_tokens'] - 10, f"{cached} of {first['usage']['prompt_tokens']}"


# ---- embeddings ----

def vectors_of_bn_run(texts):
    path = os.path.join(work, 'raw')
    subprocess.run([f'{programs}/bn-run', 'embed', '-q', '-m', model, '--pooling', 'mean', '--raw', path, *texts],
                   check=True)
    with open(path, 'rb') as file:
        raw = file.read()
    n = len(raw) // len(texts)
    return [raw[i * n:(i + 1) * n] for i in range(len(texts))]


def packed(document, form):
    return [base64.b64decode(entry['embedding'], validate=True) if form == 'base64'
            else struct.pack(f"<{len(entry['embedding'])}f", *entry['embedding']) for entry in document['data']]


@test('embeddings are those of bn-run, also while answers run')
def _():
    texts = ['What is it?', LONG * 5, 'zwei', LONG * 12]
    want = vectors_of_bn_run(texts)
    with Server('--sequences', '3', '--batch', '16') as server:
        ids = [Request(server, 'POST', '/tokenize', {'content': text, 'add_special': True}).json()['tokens']
               for text in texts]
        equal(packed(complete(server, '/v1/embeddings', input=texts).json(), 'float'), want)
        running = [complete(server, prompt=f'{i}', max_tokens=900, stream=True, temperature=0) for i in range(3)]
        for request in running:
            request.event()
        document = complete(server, '/v1/embeddings', input=ids, encoding_format='base64').json()
        equal(packed(document, 'base64'), want)
        equal(document['usage'], {'prompt_tokens': sum(map(len, ids)), 'total_tokens': sum(map(len, ids))})
        equal([entry['index'] for entry in document['data']], [0, 1, 2, 3])
        for text, vector in zip(texts, want):
            equal(packed(complete(server, '/v1/embeddings', input=text, encoding_format='float').json(), 'float'),
                  [vector])
        for request in running:
            request.leave()


@test('what cannot be embedded is refused by name')
def _():
    with Server() as server:
        length = len(complete(server, '/v1/embeddings', input='x').json()['data'][0]['embedding'])
        equal(complete(server, '/v1/embeddings', input='x', dimensions=length).status, 200)
        for param, members in (('input', {}), ('input', {'input': None}), ('input', {'input': []}),
                               ('input', {'input': ''}), ('input', {'input': ['a', '']}), ('input', {'input': [[]]}),
                               ('input', {'input': 5}), ('input', {'input': [-1]}), ('input', {'input': [99999999]}),
                               ('input', {'input': [[1], 2]}), ('input', {'input': ['a', {}]}),
                               ('input', {'input': ['a'] * 2049}), ('input', {'input': LONG * 400}),
                               ('dimensions', {'input': 'x', 'dimensions': length - 1}),
                               ('dimensions', {'input': 'x', 'dimensions': 'all'}),
                               ('encoding_format', {'input': 'x', 'encoding_format': 'int8'})):
            request = complete(server, '/v1/embeddings', **members)
            error = request.json()['error']
            assert (request.status, error['param']) == (400, param), (members, request.status, error)
    with Server('--pooling', 'file') as server:
        request = complete(server, '/v1/embeddings', input='x')
        equal(request.status, 400)
        assert '--pooling' in request.json()['error']['message']
