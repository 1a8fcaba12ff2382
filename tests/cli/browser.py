# SPDX-License-Identifier: MIT
"""Drives Chromium over the DevTools pipe: real clicks and keys, replies that a test makes up, screenshots. Errors of the console,
exceptions and violations of a page's policy are collected in Page.faults.

    with Browser() as browser:
        page = browser.open(url, width=1280, height=800)
        page.click("#send")
        page.wait("document.title === 'x'")
"""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
LIMIT_S = 120  # of one wait; generous, since other work may run beside it

WATCH = """
globalThis.violations = [];
document.addEventListener("securitypolicyviolation", e => violations.push(e.violatedDirective + " " + e.blockedURI));
"""


def installed():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="bn-browser-")
        from_us, self.out = os.pipe()
        self.inp, to_us = os.pipe()
        # The browser reads descriptor 3 and writes descriptor 4.
        script = f"exec 3<&{from_us} 4>&{to_us}; exec \"$@\""
        command = [installed(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
                   "--hide-scrollbars", "--force-color-profile=srgb", f"--user-data-dir={self.folder}/profile", "about:blank"]
        self.process = subprocess.Popen(["bash", "-c", script, "bash"] + command, pass_fds=(from_us, to_us), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, env=dict(os.environ, HOME=self.folder))
        os.close(from_us)
        os.close(to_us)
        self.rest, self.n, self.events = b"", 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def read(self):
        while b"\0" not in self.rest:
            more = os.read(self.inp, 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        self.n += 1
        number = self.n
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            got = self.read()
            if got.get("id") == number:
                if "error" in got:
                    raise RuntimeError(f"{method}: {got['error']}")
                return got["result"]
            if "method" in got:
                self.take(got)

    def take(self, event):
        self.events.append(event)
        for page in Page.all:
            page.take(event)

    def open(self, url, width=1280, height=800, dark=False, touch=False, context=None):
        """A page of a fresh profile, or of the context of another page."""
        context = context or self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, context)
        for domain in ("Page", "Runtime", "Log"):
            page.call(domain + ".enable")
        page.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        page.size(width, height, touch)
        page.dark(dark)
        page.go(url)
        return page


class Page:
    all = []

    def __init__(self, browser, session, context):
        self.browser, self.session, self.context = browser, session, context
        self.faults, self.replies, self.fills = [], [], []
        Page.all.append(self)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def take(self, event):
        if event.get("sessionId") != self.session:
            return
        method, params = event["method"], event["params"]
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.faults.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.faults.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.faults.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Fetch.requestPaused":
            self.fills.append(params)

    def size(self, width, height, touch=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)

    def dark(self, on):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if on else "light"}, {"name": "prefers-reduced-motion", "value": "reduce"}])

    def go(self, url):
        self.call("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url.split('#')[0])})")

    def js(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", expression))
        return result["result"].get("value")

    def wait(self, condition, what=None):
        end = time.monotonic() + LIMIT_S
        while True:
            self.fill()
            try:
                if self.js(f"Boolean({condition})"):
                    return
            except RuntimeError as error:
                if "context" not in str(error):  # of a page that is being left
                    raise
            if time.monotonic() > end:
                raise RuntimeError("this never became true: " + (what or condition))
            time.sleep(0.02)

    def click(self, selector, nth=0):
        """A click of the mouse at the middle of an element, which must be what is seen there."""
        at = self.js(f"""(() => {{
            const e = document.querySelectorAll({json.dumps(selector)})[{nth}];
            if (!e) return null;
            e.scrollIntoView({{block: "nearest"}});
            const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2, top = document.elementFromPoint(x, y);
            return {{x, y, seen: top !== null && (e.contains(top) || top.contains(e)), what: top && top.outerHTML.slice(0, 120)}};
        }})()""")
        if at is None:
            raise RuntimeError("nothing matches " + selector)
        if not at["seen"]:
            raise RuntimeError(f"{selector} is covered by {at['what']}")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=at["x"], y=at["y"], button="none" if kind == "mouseMoved" else "left", clickCount=1)

    def press(self, key, modifiers=0):
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowUp": 38, "ArrowDown": 40}
        more = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key], modifiers=modifiers,
                      **(more if kind == "keyDown" else {}))

    def type(self, text):
        self.call("Input.insertText", text=text)

    def answer(self, pattern, status, headers, body):
        """The next request to an address with this pattern gets this reply instead of the server's."""
        if not self.replies:
            self.call("Fetch.enable", patterns=[{"urlPattern": pattern}])
        self.replies.append((status, headers, body))

    def answer_no_more(self):
        self.replies.clear()
        self.call("Fetch.disable")
        self.fills.clear()

    def fill(self):
        while self.fills:
            paused = self.fills.pop()
            if not self.replies:
                self.call("Fetch.continueRequest", requestId=paused["requestId"])
                continue
            status, headers, body = self.replies.pop(0)
            self.call("Fetch.fulfillRequest", requestId=paused["requestId"], responseCode=status,
                      responseHeaders=[{"name": k, "value": v} for k, v in headers.items()], body=base64.b64encode(body.encode()).decode())
            if not self.replies:
                self.call("Fetch.disable")

    def shot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def violations(self):
        return self.js("violations")
