# SPDX-License-Identifier: MIT
"""Makes the pictures of the site, in light and dark, with the programs of this build and Chromium:

    screenshots.py PROGRAMS FOLDER

bn-serve runs the built-in model, answers and verifies. So that the same sources give the same pictures, what differs from run to run
(rates, times, the names of receipts) is taken out of the page before the picture, and the dashboard gets made-up figures.
FOLDER gets NAME-light.png and NAME-dark.png, and verified-light.png and -dark.png: the card alone, for README.md.
"""
import base64
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path.insert(0, os.path.join(ROOT, "tests/cli"))
sys.dont_write_bytecode = True
from browser import Browser, installed  # noqa: E402
from serve_pages import LAST, answered, pick, ready, send, settings  # noqa: E402

SHADES = {"light": False, "dark": True}
# Rows of the card that name the run, and the rate and times of the answer.
STILL = f"""(() => {{
    const card = {LAST}.querySelector('.receipt');
    for (const dt of card.querySelectorAll('dt')) if (/^(Receipt|Time of the replay)$/.test(dt.textContent)) {{ dt.nextSibling.remove(); dt.remove(); }}
    for (const code of card.querySelectorAll('code')) code.textContent = code.textContent.replace(/receipt-[0-9a-f]+/, 'receipt');
    const figures = {LAST}.querySelector('.figures');
    figures.textContent = figures.textContent.split(' \\u00b7 ')[0];
    document.querySelectorAll('#notices > *').forEach(e => e.remove());
    document.activeElement.blur();
}})()"""


# Draws the whole page anew: what is drawn in parts, after a change, has other pixels at its corners.
ANEW = """(async () => {
    const frame = () => new Promise(done => requestAnimationFrame(done)), root = document.documentElement;
    await document.fonts.ready;
    root.style.display = 'none', await frame(), await frame();
    root.style.display = '';
    const scroll = document.querySelector('#scroll');
    if (scroll) scroll.scrollTop = scroll.scrollHeight;
    await frame(), await frame();
})()"""


def shot(page, path, clip=None):
    """The mouse is nowhere. A page on which nothing moves is complete when two pictures
    in a row are the same: on a busy machine parts of it come later."""
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=0, y=0)
    page.js(ANEW)
    more = {"clip": dict(clip, scale=1), "captureBeyondViewport": True} if clip else {}
    before, data = None, ""
    while data != before:
        before, data = data, page.call("Page.captureScreenshot", format="png", **more)["data"]
        time.sleep(0.2)
    with open(path, "wb") as file:
        file.write(base64.b64decode(data))
    if shutil.which("optipng"):
        subprocess.run(["optipng", "-quiet", "-strip", "all", path], check=True)


def rectangle(page, element, margin=0):
    box = page.js(f"(() => {{ const r = {element}.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; }})()")
    x, y, width, height = (round(v) for v in box)
    return {"x": x - margin, "y": y - margin, "width": width + 2 * margin, "height": height + 2 * margin}


def chat(browser, url, folder):
    for shade, dark in SHADES.items():
        page = browser.open(url + "/", width=1100, height=760, dark=dark)
        ready(page)
        settings(page, max_tokens="48", seed="7", temperature="0.7")
        send(page, "Who is there?")
        answered(page, 1)
        pick(page, "Verify", LAST)
        page.wait(f"{LAST}.querySelector('.receipt').dataset.verdict === 'verified' && {LAST}.querySelector('.receipt details')")
        page.js(STILL)
        shot(page, f"{folder}/chat-{shade}.png")
        page.size(700, 1000)
        shot(page, f"{folder}/verified-{shade}.png", rectangle(page, LAST, 12))


def made_up(status, second):
    """A server with three clients, some seconds after its start."""
    wave = 1 + 0.06 * math.sin(second / 5) + 0.03 * math.sin(second / 2.3)
    running = 2 + (second // 17) % 3
    generated = sum(int(46 * (1 + 0.06 * math.sin(s / 5)) * (2 + (s // 17) % 3) / 2) for s in range(second))
    passes = generated // 3 + second
    sequences = [{"sequence": i, "client": i + 1, "state": "prompt" if i == 2 else "generate", "position": 180 + 97 * i + 11 * (second % 40),
                  "prompt_tokens": 64 + 40 * i, "generated_tokens": 0 if i == 2 else 30 * (i + 1), "most_tokens": 512, "age_s": 1.5 + i,
                  "model": status["models"][0]["id"], "n_ctx": 1024} for i in range(running)]
    requests = [{"model": status["models"][0]["id"], "client": 1 + i % 3, "prompt_tokens": 60 + 37 * i % 90, "cached_tokens": 48 * (i % 2),
                 "generated_tokens": 128 - 29 * i, "first_token_s": 0.21 + 0.03 * i, "total_s": 4.2 - 0.8 * i, "tokens_per_s": 31.5 - i, "ended": 1767268800 - 9 * i,
                 "end": ("end", "length", "stop")[i % 3]} for i in range(4)]
    latency = {"first_token": {"n": 90, "p50": 0.24 * wave, "p95": 0.41, "p99": 0.52}, "next_token": {"n": 512, "p50": 0.031 * wave, "p95": 0.044, "p99": 0.05 * wave * wave}}
    counters = dict.fromkeys(status["counters"], 0)
    counters.update(generated_tokens=generated, prompt_tokens=generated * 2 // 3, cached_tokens=generated // 4, passes=passes,
                    evaluated_tokens=generated + generated // 3, jobs_ended=generated // 100)
    memory = dict(status["memory_bytes"], resident=42 << 20, peak=45 << 20, contexts=24 << 20)
    queue = dict(status["queue"], running=running, waiting=max(0, running - 3))
    return dict(status, uptime_s=second, sequences=sequences, requests=requests, latency_s=latency, counters=counters, memory_bytes=memory, queue=queue)


def dashboard(browser, url, folder):
    status = json.load(urllib.request.urlopen(url + "/v1/status"))
    for shade, dark in SHADES.items():
        page = browser.open(url + "/dashboard", width=1100, height=900, dark=dark)
        page.call("Emulation.setTimezoneOverride", timezoneId="UTC")
        page.wait("find('#reports-note').textContent !== ''")
        # Of polls that are under way nothing is taken.
        page.js("setPaused(true); polls = []; globalThis.takeMadeUp = take; take = () => {}; setState = () => {}; 0")
        page.js(f"{json.dumps([made_up(status, second) for second in range(5, 180)])}.forEach(takeMadeUp), show()")
        page.js("find('#state').className = 'state live', find('#state').textContent = 'Live', find('#pause').textContent = 'Pause', find('#pause').setAttribute('aria-pressed', 'false')")
        shot(page, f"{folder}/dashboard-{shade}.png")


def files(browser, programs, folder, scratch):
    """Documents that are files: a recording and a baselines of the repository, drawn by this build."""
    flame, report = scratch + "/flame.svg", scratch + "/report.html"
    subprocess.run([programs + "/bn-flamegraph", "render", "docs/baselines/perf/flamegraphs/phase2_10tok.json", "-o", flame], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    trend = subprocess.run([programs + "/bn-bench", "trend", "--suite", "run", "--metric", "ns_per_token", "--json"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    subprocess.run([programs + "/bn-bench", "report", "--html", report, "-"], input=trend, check=True, stdout=subprocess.DEVNULL)
    for shade, dark in SHADES.items():
        page = browser.open("file://" + flame, width=1100, height=720, dark=dark)
        shot(page, f"{folder}/flame-{shade}.png")
        page = browser.open("file://" + report, width=1100, height=900, dark=dark)
        page.js("document.querySelector('.verdict .small').remove()")  # when and where it was drawn
        shot(page, f"{folder}/report-{shade}.png")


def main(programs, folder):
    programs, folder = os.path.abspath(programs), os.path.abspath(folder)
    if not installed():
        sys.exit("screenshots: no Chromium; `ci/install-packages.sh test` installs it")
    os.makedirs(folder, exist_ok=True)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("BN_", "XDG_"))}
    with tempfile.TemporaryDirectory() as scratch, Browser() as browser:
        server = subprocess.Popen([programs + "/bn-serve", "--template", "instruct", "--port", "0", "-t", "1"], cwd=scratch, env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            url = next(found[0] for found in (re.search(r"http://\S+", line) for line in server.stdout) if found)
            dashboard(browser, url, folder)
            chat(browser, url, folder)
            files(browser, programs, folder, scratch)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
