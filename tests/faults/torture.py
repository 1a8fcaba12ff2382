# SPDX-License-Identifier: MIT
# Runs the programs that write files while calls of the system fail (tests/faults/faults.c), or kills them. TAP.
#
#   torture.py FOLDER-OF-PROGRAMS faults [--positions N|all] [--share N] [--jobs REGEX] [--faults NAME,...] [--parallel N]
#   torture.py FOLDER-OF-PROGRAMS kills [--kills N] [--jobs REGEX] [--parallel N]
#
# A job is a command, the files that are there before, and what its outputs must be. With faults, the N-th call of a class
# fails, alone or with all later ones, for N = 1, 1 + step, ... until the command ends without having come so far; --share 5
# takes each fifth of these runs. With kills, SIGKILL comes at moments that are spread over the time that the command takes and,
# each second one, before a call, spread over its calls. After each run:
#   - the exit code is one that the fault may have, never a signal; an error is one line that names the program;
#   - with 0 all outputs are complete, and standard output is that of an undisturbed run;
#   - each file is as before, or it is an output, complete by the program that reads it; no other file is there;
#   - no descriptor and no memory is left when the program ends;
#   - after a kill the same command works in the same folder.
# --plant makes what the checks have to find: torn (a half-written output), leftover, code, leak.
import argparse
import concurrent.futures
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLASSES = ('memory', 'read', 'write', 'sync', 'name', 'open', 'map', 'size', 'thread', 'any')  # as in faults.c
# fault: its class, and the exit codes that it may have besides 0. 3: a file that may not be read is "not readable".
FAULTS = {'memory': ('memory', {10}), 'read': ('read', {8}), 'short-read': ('read', set()), 'write': ('write', {8}),
          'full': ('write', {8}), 'short-write': ('write', set()), 'sync': ('sync', {8}), 'name': ('name', {8}),
          'descriptors': ('open', {8}), 'denied': ('open', {3}), 'map': ('map', {10}), 'size': ('size', {8}),
          'thread': ('thread', {8, 10}), 'shrink': ('map', {8}), 'trim': ('map', {8}), 'shrink-read': ('read', {8})}

parser = argparse.ArgumentParser()
parser.add_argument('programs')
parser.add_argument('mode', choices=('faults', 'kills'))
parser.add_argument('--positions', default='2')
parser.add_argument('--kills', type=int, default=4)
parser.add_argument('--jobs', default='')
parser.add_argument('--faults')
parser.add_argument('--share', type=int, default=1)
parser.add_argument('--parallel', type=int, default=1)
parser.add_argument('--plant', choices=('torn', 'leftover', 'code', 'leak'))
o = parser.parse_args()
programs = os.path.abspath(o.programs)
library = f'{programs}/tests/faults/faults.so'
tmp = tempfile.mkdtemp(prefix='bn-torture-')
given = f'{tmp}/in'
os.mkdir(given)
environment = {'PATH': os.environ['PATH'], 'HOME': f'{tmp}/home', 'BN_THREADS': '1', 'GIT_CEILING_DIRECTORIES': tmp,
               'LC_ALL': 'C', 'OPENBLAS_NUM_THREADS': '1'}
n_tests = n_bad = n_planned = 0
lock = threading.Lock()


def program(name):
    return f'{programs}/bn-{name}'


def said(title, problems):
    global n_tests, n_bad
    n_tests += 1
    n_bad += bool(problems)
    print(f'{"not ok" if problems else "ok"} {n_tests} - {title}')
    for text in problems[:8]:
        print('#', text.replace('\n', ' | ')[:330])
    sys.stdout.flush()


def quiet(*command, folder=None, more=None):
    done = subprocess.run(command, cwd=folder or tmp, env={**environment, **(more or {})}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout, done.stderr


def must(*command, **how):
    code, out, err = quiet(*command, **how)
    if code != 0:
        sys.exit(f'{command}: exit {code}: {err.decode()}')
    return out


def sha256(path):
    with open(path, 'rb') as file:
        return hashlib.sha256(file.read()).hexdigest()


def files_of(folder):
    """path: what it has, by relative names."""
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            where = os.path.relpath(path, folder)
            found[where] = 'link ' + os.readlink(path) if os.path.islink(path) and not os.path.exists(path) else sha256(path)
    return found


# ---- jobs ----

# A model that changes while it is used gets no receipt.
CHANGED = {'shrink': {5}, 'trim': {5}}

class Result:
    def __init__(self, code, out=b'', err=b'', problems=()):
        self.code, self.out, self.err, self.problems = code, out, err, list(problems)


class Job:
    """outputs: {regex of a relative path: whether the file is complete}. start: {path: what is copied there}. also: {fault:
    further codes}. leaves: other files that may stay. without: faults that mean nothing. keeps: faults after which a library
    keeps memory. stdout: it is the same each time."""

    def __init__(self, name, command, outputs=None, start=None, also=None, leaves=None, env=None, without=(), keeps=(), kills=True,
                 stdout=True, timeout=120):
        self.name, self.command, self.outputs, self.start = name, command, outputs or {}, start or {}
        self.also, self.leaves, self.env, self.without, self.kills = also or {}, leaves, env or {}, without, kills
        self.keeps = keeps
        self.stdout, self.timeout = stdout, timeout
        self.known = {}  # path and digest of outputs that were looked at

    def folder(self):
        folder = tempfile.mkdtemp(dir=tmp)
        for name, path in self.start.items():
            at = os.path.join(folder, name)
            os.makedirs(os.path.dirname(at), exist_ok=True)
            shutil.copytree(path, at) if os.path.isdir(path) else shutil.copy(path, at)
        return folder

    def argv(self):
        return [text.replace('URL', f'http://127.0.0.1:{httpd_port}') for text in self.command]

    def variables(self, more):
        return {**environment, 'XDG_STATE_HOME': './state', 'XDG_CACHE_HOME': './cache', **self.env, **more}

    def begin(self, folder, more):
        env = self.variables(more)
        for name in ('XDG_STATE_HOME', 'XDG_CACHE_HOME', 'HF_HOME', 'BN_LEDGER'):
            if name in env:
                env[name] = os.path.join(folder, env[name])
        return subprocess.Popen(self.argv(), cwd=folder, env=env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, folder, more):
        process = self.begin(folder, more)
        try:
            out, err = process.communicate(timeout=self.timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            return Result(process.returncode, out, err, ['it does not end'])
        return Result(process.returncode, out, err)

    def kill(self, folder, delay, more):
        """Whether it still ran. Without a delay, faults.c kills it."""
        process = self.begin(folder, more)
        if delay is not None:
            time.sleep(delay)
            process.kill()
        process.communicate()
        return process.returncode == -signal.SIGKILL

    def complete(self, pattern, folder, name):
        """Looks at an output once for each of its contents."""
        path = os.path.join(folder, name)
        key = pattern, sha256(path)
        if key not in self.known:
            self.known[key] = self.outputs[pattern](path)
        return self.known[key]

    def look(self, folder, before, ended_well):
        """What is wrong with the files."""
        problems, found = [], files_of(folder)
        missing = set(self.outputs)
        for name, digest in found.items():
            pattern = next((p for p in self.outputs if re.fullmatch(p, name)), None)
            if pattern is not None and self.complete(pattern, folder, name):
                missing.discard(pattern)
            elif before.get(name) == digest or (self.leaves and re.fullmatch(self.leaves, name)):
                continue
            else:
                problems.append(f'{name}: ' + ('not complete' if pattern is not None else 'left behind'))
        problems += [f'{name}: gone' for name in before if name not in found and
                     not any(re.fullmatch(p, name) for p in self.outputs)]
        if ended_well:
            problems += [f'exit 0 without {pattern}' for pattern in missing]
        return problems


def same_as(path):
    digest = sha256(path)
    return lambda other: sha256(other) == digest


def passes(*command):
    """A program accepts the file, which is the argument FILE."""
    return lambda path: quiet(*(path if text == 'FILE' else text for text in command))[0] == 0


def is_json(path):
    try:
        with open(path) as file:
            return bool(json.load(file))
    except ValueError:
        return False


# ---- a server, and clients that ask it ----

class Serve(Job):
    KEY = '0123456789abcdef'

    def ask(self, port, method, path, body=None, headers=None):
        c = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
        try:
            c.request(method, path, body, {'Authorization': f'Bearer {self.KEY}', 'Content-Type': 'application/json', **(headers or {})})
            r = c.getresponse()
            return r.status, r.read()
        except (OSError, http.client.HTTPException):
            return 0, b''
        finally:
            c.close()

    def questions(self, port, problems):
        page = {'Origin': 'http://a'}
        self.ask(port, 'GET', '/v1/models')
        self.ask(port, 'POST', '/tokenize', '{"content": "a"}')
        self.ask(port, 'POST', '/detokenize', '{"tokens": [40, 41]}')
        status, body = self.ask(port, 'POST', '/v1/completions', '{"prompt": [[40, 41], [40]], "max_tokens": 3, "logprobs": 1, "temperature": 0}')
        if status == 200:
            chains = [choice['bn']['chain'] for choice in json.loads(body)['choices']]
            if chains != self.__dict__.setdefault('chains', chains):
                problems.append('another answer')
            self.ask(port, 'GET', '/v1/receipts/' + json.loads(body)['choices'][0]['bn']['receipt'])
        self.ask(port, 'POST', '/v1/completions', '{"prompt": [40], "max_tokens": 3, "stream": true, "stop": ["x"]}', page)
        self.ask(port, 'POST', '/v1/completions',
                 '{"prompt": [40], "max_tokens": 2, "temperature": 1, "response_format": {"type": "json_object"}}')
        self.ask(port, 'POST', '/v1/messages', '{"model": "a", "messages": [{"role": "user", "content": "a"}], "max_tokens": 2}')
        self.ask(port, 'POST', '/api/generate', '{"prompt": "a", "options": {"num_predict": 2}}')
        self.ask(port, 'OPTIONS', '/v1/completions', None, {**page, 'Access-Control-Request-Method': 'POST'})
        self.ask(port, 'GET', '/metrics')

    def run(self, folder, more):
        problems, forever = [], 'BN_FAULT_FROM' in more
        process = self.begin(folder, more)
        line = process.stdout.readline()
        if line:
            port = int(line.rsplit(b':', 1)[1])
            self.questions(port, problems)
            # A single failure is over by now, or it is one of the first of these calls.
            well = (200, 503) if more.get('BN_FAULT') in ('shrink', 'trim') else (200,)
            if not forever and process.poll() is None and all(self.ask(port, 'GET', '/health')[0] not in well for _ in range(2)):
                problems.append('it no longer answers')
            process.terminate()
        try:
            _, err = process.communicate(timeout=self.timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            _, err = process.communicate()
            problems.append('it does not end')
        return Result(process.returncode, b'', err, problems)

    def kill(self, folder, delay, more):
        process = self.begin(folder, more)
        timer = threading.Timer(delay if delay is not None else self.timeout, process.kill)
        timer.start()
        line = process.stdout.readline()
        if line:
            self.questions(int(line.rsplit(b':', 1)[1]), [])
        process.terminate()
        process.communicate()
        timer.cancel()
        return process.returncode == -signal.SIGKILL


# ---- what is done ----

def asked(*names):
    """Of a group of jobs: is one of them to be run? What others need is not made."""
    return any(re.search(o.jobs, name) for name in names)


def prepare():
    """The inputs, and the jobs."""
    model, text, receipt, key = f'{given}/m.gguf', f'{given}/text', f'{given}/r.json', f'{given}/key'
    shutil.copy(f'{ROOT}/fixtures/nano-bitnet-b1.58-i2_s-42.gguf', model)
    with open(f'{ROOT}/fixtures/validation.txt', 'rb') as file, open(text, 'wb') as out:
        out.write(file.read(20000))
    run, verify, convert, bench, train = map(program, ('run', 'verify-receipt', 'convert', 'bench', 'train'))
    must(run, '-q', '-m', model, '--tokens', '1,2,3', '-n', '8', '--receipt', receipt)
    if asked('bn-verify-receipt sign', 'bn-serve'):
        must(verify, 'keygen', '-o', key)
    replays = passes(verify, '-q', '--model', model, '--replay', 'FILE')
    jobs = []

    generate = [run, '-m', 'm.gguf', '-p', 'ROMEO and JULIET', '-n', '8']
    reads = passes(*(model if text == 'm.gguf' else text for text in generate), '--prompt-cache', 'FILE', '--prompt-cache-ro')
    write = [*generate, '--receipt', 'r.json', '--prompt-cache', 'c']
    outputs = {'r.json': replays, 'c': reads}
    jobs.append(Job('bn-run', write, outputs, {'m.gguf': model}, also=CHANGED))
    if asked('bn-run over old files'):
        must(run, '-q', '-m', model, '-p', 'something else', '-n', '2', '--prompt-cache', f'{given}/c')
    old = {'m.gguf': model, 'r.json': receipt, 'c': f'{given}/c'}
    jobs.append(Job('bn-run over old files', write, outputs, old, also=CHANGED))
    with open(f'{given}/lines', 'w') as out:
        out.write('"ROMEO:"\n{"prompt": "JULIET", "n_predict": 3}\n"a"\n')
    jobs.append(Job('bn-run --batch-file', [run, '-m', 'm.gguf', '--batch-file', 'lines', '-n', '4', '--receipts', 'rs'],
                    {r'rs/\d\.json': replays}, {'m.gguf': model, 'lines': f'{given}/lines'},
                    also={**CHANGED, 'shrink-read': {4}}, stdout=False))
    jobs.append(Job('bn-run --trace', [*generate, '--trace', 't'], {}, {'m.gguf': model}, also=CHANGED, leaves='t/.*', kills=False))
    jobs.append(Job('bn-run --profile', [*generate, '--profile', 'p.json'], {r'p\.json': is_json}, {'m.gguf': model}, also=CHANGED,
                    kills=False))

    start = {'m.gguf': model, 'r.json': receipt, 'key': key}
    jobs.append(Job('bn-verify-receipt --replay', [verify, '--model', 'm.gguf', '--replay', 'r.json'], {}, start,
                    also={'shrink-read': {4}}, kills=False, stdout=False))
    jobs.append(Job('bn-verify-receipt sign', [verify, 'sign', '--key', 'key', '-o', 's.json', 'r.json'],
                    {r's\.json': passes(verify, '-q', '--public-key', f'{key}.pub', '--require-signature', 'FILE')}, start,
                    also={'shrink-read': {4, 7}}))
    jobs.append(Job('bn-verify-receipt keygen', [verify, 'keygen', '-o', 'new'],
                    {'new': passes(verify, 'sign', '-q', '--key', 'FILE', '-o', f'{tmp}/signed', receipt), r'new\.pub': passes('openssl', 'pkey', '-pubin', '-in', 'FILE', '-noout')}, {}, stdout=False, kills=False))

    if asked('bn-download', 'bn-download --force over an old file', 'bn-download into the cache'):
        jobs += downloads(model)
    if asked('bn-convert', 'bn-convert over old files', 'bn-convert of a folder'):
        jobs += conversions(convert, model)

    if os.access(train, os.X_OK) and asked('bn-train', 'bn-train resume'):
        jobs += trainings(train, text)
    if asked('bn-bench baseline save', 'bn-bench baseline save, a second run'):
        jobs += ledgers(bench)

    with open(f'{given}/keys', 'w') as out:
        out.write(f'{Serve.KEY}\n')
    os.chmod(f'{given}/keys', 0o600)
    jobs.append(Serve('bn-serve', [program('serve'), '-m', 'm.gguf', '--port', '0', '-t', '1', '--sequences', '2', '--receipts',
                                   'receipts', '--sign', 'key', '--api-key-file', 'keys', '--cors', 'http://a', '--log'],
                      {r'receipts/\w+/[-\w]+\.json': passes(verify, '-q', '--public-key', f'{key}.pub', '--require-signature', '--model', model, '--replay', 'FILE')},
                      {'m.gguf': model, 'key': key, 'keys': f'{given}/keys'}, stdout=False, without=('shrink-read',)))
    return jobs


def downloads(model):
    global httpd, httpd_port
    site = f'{tmp}/site'
    os.mkdir(site)
    shutil.copy(model, f'{site}/m.gguf')
    commit = '1' * 40
    with open(f'{tmp}/script', 'w') as out:
        out.write(f'* /acme/m/resolve/main/m.gguf redirect=%p/m.gguf header=X-Repo-Commit:{commit} '
                  f'header=X-Linked-Etag:"{sha256(model)}" header=X-Linked-Size:{os.path.getsize(model)}\n')
    httpd = subprocess.Popen([f'{programs}/tests/httpd/httpd', site, f'{tmp}/script', f'{tmp}/httpd.log'], stdout=subprocess.PIPE)
    httpd_port = int(httpd.stdout.readline())
    get = [program('download'), '--retries', '0']
    # 6: libcurl reports failures of its own as a broken connection. 8: a thread without memory for it is one too many.
    curl = {'memory': {6, 8}, 'descriptors': {6}, 'denied': {6, 8}, 'map': {6, 8}, 'thread': {6}, 'read': {6}}
    same, state = same_as(model), r'state/bn/.*'
    with open(f'{given}/lines-old', 'w') as out:
        out.write('old')
    return [Job('bn-download', [*get, 'URL/m.gguf', '--to', 'to'], {r'to/m\.gguf': same}, leaves=rf'to/m\.gguf\.(part|part\.json|lock)|{state}',
                also=curl, stdout=False),
            Job('bn-download --force over an old file', [*get, 'URL/m.gguf', '--to', 'to', '--force'], {r'to/m\.gguf': same},
                {'to/m.gguf': f'{given}/lines-old'}, leaves=rf'to/m\.gguf\.(part|part\.json|lock)|{state}', also=curl, stdout=False),
            Job('bn-download into the cache', [*get, 'acme/m:m.gguf'],
                {rf'hf/hub/models--acme--m/(blobs/{sha256(model)}|snapshots/{commit}/m.gguf)': same},
                leaves=rf'hf/hub/\.locks/.*|hf/hub/models--acme--m/(blobs/\w+\.(part|part\.json|incomplete)|refs/main)|hf/hub/(CACHEDIR\.TAG|version\.txt)|{state}', also=curl, stdout=False,
                env={'HF_HOME': 'hf', 'HF_ENDPOINT': f'http://127.0.0.1:{httpd_port}'})]


def conversions(convert, model):
    must(convert, '-q', model, '--to', 'pq2_0', '-o', f'{given}/o.gguf')
    jobs = []
    whole = {r'o\.gguf': same_as(f'{given}/o.gguf'), r'o\.gguf\.json': is_json}
    jobs.append(Job('bn-convert', [convert, 'm.gguf', '--to', 'pq2_0', '-o', 'o.gguf'], whole, {'m.gguf': model}, stdout=False))
    must(convert, '-q', model, '--to', 'f32', '-o', f'{given}/old.gguf')
    old = {'m.gguf': model, 'o.gguf': f'{given}/old.gguf', 'o.gguf.json': f'{given}/old.gguf.json'}
    jobs.append(Job('bn-convert over old files', [convert, 'm.gguf', '--to', 'pq2_0', '-o', 'o.gguf'], whole, old, stdout=False))
    if shutil.which('node'):
        must('node', f'{ROOT}/tests/convert/folder.mjs', model, f'{given}/folder', 'trits', 'pairs', 'template')
        must(convert, '-q', f'{given}/folder', '--to', 'pq2_0', '-o', f'{given}/f.gguf')
        jobs.append(Job('bn-convert of a folder', [convert, 'folder', '--to', 'pq2_0', '-o', 'f.gguf'],
                        {r'f\.gguf': same_as(f'{given}/f.gguf'), r'f\.gguf\.json': is_json}, {'folder': f'{given}/folder'},
                        also={'shrink': {4}, 'trim': {4}}, stdout=False))
    return jobs


def trainings(train, text):
    must(train, 'tokenizer', '-q', '--text', text, '--vocab', '300', '-o', f'{given}/v.gguf')
    shape = ['--text', f'{given}/text', '--tokenizer', f'{given}/v.gguf', '--layers', '1', '--width', '128', '--context', '16', '--batch',
             '64', '--micro-batch', '64', '--steps', '6', '--warm-up', '1', '--save-every', '2', '-t', '1']
    must(train, 'train', '-q', *shape, '--until', '2', '-o', f'{given}/run')
    must(train, 'train', '-q', *shape, '-o', f'{given}/whole')
    outputs = {r'run/checkpoint\.bntrain': passes(train, 'export', '-q', 'FILE', '-o', f'{tmp}/exported.gguf'),
               r'run/model\.gguf': same_as(f'{given}/whole/model.gguf'), r'run/training\.json': is_json}
    # Without this, bn-train starts itself again on a processor that is newer than OpenBLAS, and faults stay behind.
    with open(f'{given}/whole/training.json') as record:
        core = {'OPENBLAS_CORETYPE': json.load(record)['library']['core']}
    # OpenBLAS takes other memory when a map fails, and keeps it.
    return [Job('bn-train', [train, 'train', *shape, '-o', 'run'], outputs, stdout=False, kills=False, keeps=('map',), env=core),
            Job('bn-train resume', [train, 'resume', '-o', 'run'], outputs, {'run': f'{given}/run'}, stdout=False, keeps=('map',),
                also={'trim': {5}}, env=core)]  # the checkpoint has a digest


def ledgers(bench):
    document = {'schema': 'bn.bench/1', 'command': 'run', 'created': '2026-01-02T03:04:05Z',
                'program': {'version': '0', 'commit': '1' * 40, 'dirty': False, 'compiler': 'gcc', 'flags': '-O2', 'binary_sha256': 'b'},
                'git': {'branch': 'main', 'changed_sources': 0}, 'settings': {'threads': [1], 'reps': 5}, 'model': {'sha256': 'm'},
                'machine': {'key': 'k', 'label': 'toy', 'load_milli': [0, 0, 0], 'cpus_usable': 2},
                'others': {'wall_ns': 1000000000, 'cpus': 2, 'used_cpus': 0.1, 'stolen_cpus': 0},
                'series': [{'test': 'decode', 'metric': 'ns_per_token', 'unit': 'ns', 'better': 'lower', 'exact': False, 'warmup': 0,
                            'samples': [100000 + i * 7 % 10 for i in range(10)]}]}
    with open(f'{given}/bench.json', 'w') as out:
        json.dump(document, out)
    save = [bench, 'baseline', 'save', '--ledger', 'ledger', '--allow-stale', '--allow-dirty', '--reason', 'a test', 'main', 'bench.json']
    must(*[f'{given}/{text}' if text in ('ledger', 'bench.json') else text for text in save])
    start = {'bench.json': f'{given}/bench.json'}

    def lists(path):
        code, out, _ = quiet(bench, 'baseline', 'list', '--ledger', os.path.dirname(os.path.dirname(path)))
        return code == 0 and b'main' in out
    outputs, also = {r'ledger/toy/run\.json': lists}, {'shrink-read': {4}}
    return [Job('bn-bench baseline save', save, outputs, start, stdout=False, also=also),
            Job('bn-bench baseline save, a second run', save, outputs, {**start, 'ledger': f'{given}/ledger'}, stdout=False, also=also)]


# ---- faults ----

def read_report(folder):
    try:
        with open(f'{folder}.report') as file:
            numbers = list(map(int, file.read().split()))
        os.unlink(f'{folder}.report')
    except (OSError, ValueError):
        return None
    return numbers if len(numbers) == len(CLASSES) + 2 else None


def tear(folder):
    for name in files_of(folder):
        with open(f'{folder}/{name}', 'ab') as out:
            out.write(b'x')


def one_run(job, variables):
    """A run in a new folder: the calls of each class (None: it did not say), and what is wrong besides the exit code."""
    folder = job.folder()
    before = files_of(folder)
    more = {'LD_PRELOAD': library, 'BN_FAULT_REPORT': f'{folder}.report', 'BN_FAULT_FOLDER': folder, **variables}
    shrinks = variables.get('BN_FAULT', '').startswith(('shrink', 'trim'))
    if shrinks:  # which the sandbox does not permit
        more['BN_NO_SANDBOX'] = '1'
    result = job.run(folder, more)
    if o.plant == 'torn' and result.code != 0:
        tear(folder)
    if o.plant == 'leftover' and result.code != 0:
        with open(f'{folder}/r.json.tmp-0123456789abcdef', 'w'):
            pass
    if o.plant == 'code' and result.code != 0:
        result.code = 1
    shrunk = {'m.gguf', 'folder/model.safetensors'} if shrinks else set()
    changed = {name: digest for name, digest in files_of(folder).items() if name in before}
    if shrunk:
        before = {**before, **changed}
    problems = result.problems + job.look(folder, before, result.code == 0 and not (variables and isinstance(job, Serve)))
    errors = [line for line in result.err.decode(errors='replace').split('\n') if re.match(r'bn-[-\w]+: error: .', line)]
    if result.code != 0 and len(errors) != 1:
        problems.append(f'{len(errors)} errors are printed: {result.err[-300:].decode(errors="replace")}')
    report = read_report(folder)
    if o.plant == 'leak' and variables and report is not None:
        report[-2:] = [n + 1 for n in report[-2:]]
    shutil.rmtree(folder)
    return result, report, problems, errors


def sample(plan):
    global n_planned
    first, n_planned = -n_planned % o.share, n_planned + len(plan)
    return plan[first::o.share]


def fault_runs(job):
    clean, report, problems, _ = one_run(job, {})
    if clean.code != 0 or report is None:
        said(job.name, [f'without a fault: exit {clean.code}: {clean.err[-400:].decode(errors="replace")}'] + problems)
        return
    said(f'{job.name}: without a fault', problems)
    wanted = o.faults.split(',') if o.faults else FAULTS
    for fault in wanted:
        klass, codes = FAULTS[fault]
        if fault in job.without:
            continue
        two = {'BN_THREADS': '2'} if fault == 'thread' else {}
        total = report[CLASSES.index(klass)] + (2 if two else 0)  # as many threads as that; more do not start
        if total == 0:
            continue
        step = 1 if o.positions == 'all' else max(1, -(-total // int(o.positions)))
        bad = []
        plan = [(mode, at) for mode in ('AT', 'FROM') for at in range(1 + (step // 2 if mode == 'FROM' else 0), total + 1 + step, step)]
        plan = sample(plan)
        if not plan:
            continue
        usual = one_run(job, two)[1] if two else report

        def one(planned):
            mode, at = planned
            result, now, wrong, errors = one_run(job, {'BN_FAULT': fault, f'BN_FAULT_{mode}': str(at), **two})
            allowed = {0} | codes | job.also.get(fault, set())
            if result.code not in allowed:
                wrong.append(f'exit {result.code}')
            if job.stdout and result.code == 0 and result.out != clean.out:
                wrong.append('exit 0 with another output')
            if now is not None:
                if now[-2] > usual[-2]:
                    wrong.append(f'{now[-2]} descriptors stay open')
                if now[-1] > usual[-1] and fault not in job.keeps:
                    wrong.append(f'{now[-1]} pieces of memory are not freed')
            return [f'{fault} {mode}={at}: {text}: {"; ".join(errors) or result.err[-200:].decode(errors="replace")}' for text in wrong]
        with concurrent.futures.ThreadPoolExecutor(o.parallel) as pool:
            for wrong in pool.map(one, plan):
                bad += wrong
        said(f'{job.name}: {fault} ({total} calls, {len(plan)} runs)', bad)


# ---- kills ----

def kill_runs(job):
    times = []
    for _ in range(3):
        folder = job.folder()
        began = time.monotonic()
        clean = job.run(folder, {})
        times.append(time.monotonic() - began)
        shutil.rmtree(folder)
    took = sorted(times)[1]
    if clean.code != 0:
        said(job.name, [f'without a kill: exit {clean.code}: {clean.err[-300:].decode(errors="replace")}'])
        return
    counts = {'killed': 0, 'as before': 0, 'complete': 0, 'temporary names': 0}
    n_calls = one_run(job, {})[1][CLASSES.index('any')]

    def one(i):
        nonlocal took
        folder = job.folder()
        before = files_of(folder)
        # The fractions of the golden ratio fill the time, and the calls, evenly.
        share, delay, more = 1.1 * ((i // 2 * 0.6180339887) % 1), None, {}
        if i % 2 == 0:
            delay = took * share
        else:
            more = {'LD_PRELOAD': library, 'BN_FAULT': 'kill', 'BN_FAULT_AT': str(1 + int(n_calls * share))}
        killed = job.kill(folder, delay, more)
        if o.plant == 'torn':
            tear(folder)
        if delay is not None and killed != (share < 1):  # other work on this machine
            took *= 1.1 if killed else 0.97
        now = files_of(folder)
        temporary = [name for name in now if '.tmp-' in name]
        for name in temporary:  # bn-serve removes its own
            if not isinstance(job, Serve):
                os.unlink(os.path.join(folder, name))
        problems = [text for text in job.look(folder, before, False) if '.tmp-' not in text]
        is_new = any(re.fullmatch(p, name) and before.get(name) != now[name] for name in now for p in job.outputs)
        if o.kills < 20 or i % 10 == 0:
            again = job.run(folder, {})
            if again.code != 0:
                problems.append(f'the next run: exit {again.code}: {again.err[-300:].decode(errors="replace")}')
            problems += [f'after the next run: {text}' for text in job.look(folder, before, True)]
        shutil.rmtree(folder)
        with lock:
            counts['killed'] += killed
            counts['complete' if is_new else 'as before'] += 1
            counts['temporary names'] += bool(temporary)
        when = f'after {delay * 1000:.1f} ms' if delay is not None else f'before call {more["BN_FAULT_AT"]}'
        return [f'kill {i} {when}: {text}' for text in problems]
    bad = []
    with concurrent.futures.ThreadPoolExecutor(o.parallel) as pool:
        for wrong in pool.map(one, range(o.kills)):
            bad += wrong
    if counts['killed'] < o.kills / 2:
        bad.append('too few kills came in time')
    said(f'{job.name}: {o.kills} kills in {took * 1100:.0f} ms or {n_calls} calls ({", ".join(f"{name} {n}" for name, n in counts.items())})', bad)


httpd, httpd_port = None, 0
try:
    for job in prepare():
        if re.search(o.jobs, job.name) and (o.mode == 'faults' or job.kills):
            (fault_runs if o.mode == 'faults' else kill_runs)(job)
finally:
    if httpd is not None:
        httpd.kill()
    shutil.rmtree(tmp)
print(f'1..{n_tests}')
sys.exit(1 if n_bad else 0)
