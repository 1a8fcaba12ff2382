# SPDX-License-Identifier: MIT
"""Uses the pages of bn-serve as a person does, in Chromium, and prints a line for each test: pass or fail, and its title.
python3 serve_pages.py PART URL [MORE]; serve_pages.sh starts the servers.
"""
import json
import sys
import time
import traceback
import urllib.request

from browser import Browser

STREAM = {"Content-Type": "text/event-stream"}
BUSY = "document.querySelector('#log').getAttribute('aria-busy') === 'true'"
LAST = "[...document.querySelectorAll('.answer')].pop()"

# The least contrast of the texts that are visible, and the text that has it.
CONTRAST = """(() => {
    const probe = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const rgb = color => { probe.clearRect(0, 0, 1, 1); probe.fillStyle = color; probe.fillRect(0, 0, 1, 1); return [...probe.getImageData(0, 0, 1, 1).data]; };
    const light = ([r, g, b]) => { const f = v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    let worst = [99, ""];
    for (let node; (node = walker.nextNode());) {
        const e = node.parentElement, style = getComputedStyle(e);
        if (node.data.trim() === "" || !e.checkVisibility({opacityProperty: true, visibilityProperty: true}) || e.closest(".hidden, .skip, button:disabled")) continue;
        let under = e;
        while (under && rgb(getComputedStyle(under).backgroundColor)[3] < 255) under = under.parentElement;
        const back = light(rgb(under ? getComputedStyle(under).backgroundColor : "white")), ink = light(rgb(e.namespaceURI.endsWith("svg") ? style.fill : style.color));
        const ratio = (Math.max(back, ink) + 0.05) / (Math.min(back, ink) + 0.05);
        if (ratio < worst[0]) worst = [ratio, node.data.trim().slice(0, 40)];
    }
    return worst;
})()"""


# Answers come as the server sends them up to a number of bytes, and do not go on before they are stopped, however fast the
# server is.
HOLD = """globalThis.realFetch = fetch;
globalThis.fetch = async (path, options) => {
    const response = await realFetch(path, options);
    if (!path.includes("completions")) return response;
    const reader = response.body.getReader();
    let room = 5000;
    return new Response(new ReadableStream({async pull(out) {
        const {done, value} = room > 0 ? await reader.read() : {done: true};
        if (done) await new Promise((_, fail) => options.signal.addEventListener("abort", () => fail(new DOMException("stopped", "AbortError"))));
        out.enqueue(value.slice(0, room));
        room -= value.length;
    }}), {headers: response.headers});
};"""


def check(title, good, found=""):
    print(("pass " if good else "fail ") + title, flush=True)
    if not good:
        print(f"# {title}: found {found!r}", flush=True)


def equal(title, got, want):
    check(title, got == want, got)


def events(text, size=7, end=True):
    """The reply of a model that says this."""
    pieces = [{"choices": [{"index": 0, "delta": {"content": text[i:i + size]}, "finish_reason": None}]} for i in range(0, len(text), size)]
    if end:
        pieces.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "bn": {"receipt": "0" * 32, "chain": "ab", "seed": 7, "end": "end"}}],
                       "timings": {"predicted_per_second": 41.5}})
        pieces.append({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}})
    return "".join(f"data: {json.dumps(p)}\n\n" for p in pieces) + ("data: [DONE]\n\n" if end else "")


def error(message, code=None):
    return json.dumps({"error": {"message": message, "type": "x", "param": None, "code": code}})


def ready(page):
    page.wait("document.documentElement.dataset.ready === 'yes'")


def send(page, text):
    page.click("#prompt")
    page.type(text)
    page.press("Enter")


def answered(page, n):
    page.wait(f"!({BUSY}) && document.querySelectorAll('.answer').length === {n}", f"{n} answers")


def say(page, n, prompt, reply):
    """The nth message gets a reply that a test makes up."""
    page.answer("*/v1/chat/completions", 200, STREAM, reply)
    send(page, prompt)
    answered(page, n)


def pick(page, name, within):
    """Clicks the button with this text."""
    page.js(f"document.querySelectorAll('[data-picked]').forEach(e => e.removeAttribute('data-picked'))")
    found = page.js(f"""(() => {{ const b = [...({within}).querySelectorAll("button")].find(b => b.textContent === {json.dumps(name)});
        if (b) b.dataset.picked = ""; return Boolean(b); }})()""")
    if not found:
        raise RuntimeError(f"no button {name}")
    page.click("[data-picked]")


def clean(page, what, allowed=()):
    faults = [f for f in page.faults if not any(a in f for a in allowed)]
    equal(f"{what}: no errors on the console", faults, [])
    equal(f"{what}: the policy was not violated", page.violations(), [])


def contrast(page, what):
    worst = page.js(CONTRAST)
    check(f"{what}: texts have a contrast of 4.5 or more", worst[0] >= 4.5, worst)


def settings(page, **values):
    page.click("#open-settings")
    for name, value in values.items():
        page.js(f"document.querySelector('#{name}').value = ''")
        page.click("#" + name)
        page.type(value)
    pick(page, "Done", "document.querySelector('#settings')")


# ---- the parts ----

def chat(browser, url):
    page = browser.open(url + "/?q=Hello&prompt=Hello&message=Hello")
    ready(page)
    check("the page names the model", page.js("document.querySelector('#model').textContent").endswith(".gguf"))
    equal("nothing is sent because of the address", page.js("document.querySelectorAll('.message').length"), 0)
    check("the empty page says what to do", page.js("!document.querySelector('#empty').hidden"))
    contrast(page, "empty")
    equal("fields have labels", page.js("[...document.querySelectorAll('input, textarea, select')].filter(e => e.labels.length === 0).map(e => e.id)"), [])
    equal("buttons have names", page.js("[...document.querySelectorAll('button')].filter(e => !(e.textContent.trim() || e.ariaLabel)).map(e => e.id)"), [])
    equal("the messages are a log", page.js("document.querySelector('#log').getAttribute('role')"), "log")

    settings(page, max_tokens="12", seed="7")
    send(page, "Who is there?")
    answered(page, 1)
    text = page.js(f"{LAST}.querySelector('.body').textContent")
    check("a message is answered", len(text) > 5, text)
    check("with its speed", page.js(f"/^12 tokens . [0-9.,]+ tok.s . first token after /.test({LAST}.querySelector('.figures').textContent)"),
          page.js(f"{LAST}.querySelector('.figures').textContent"))
    equal("the field is empty again", page.js("document.querySelector('#prompt').value"), "")
    for seed in (8, 9):
        pick(page, "Regenerate", LAST)
        page.wait(f"!({BUSY}) && conversation.messages[1].seed === {seed}", f"seed {seed}")
        check("an answer is made again with the next seed, which is another one", page.js(f"{LAST}.querySelector('.body').textContent") != text)
        check("which is said", f"seed, {seed}." in page.js("document.querySelector('#notices').textContent"), page.js("document.querySelector('#notices').textContent"))
    settings(page, seed="7")
    page.js("conversation.messages[1].asked = ''")
    pick(page, "Regenerate", LAST)
    page.wait(f"!({BUSY}) && conversation.messages[1].seed === 7")
    equal("the same seed gives the same answer", page.js(f"{LAST}.querySelector('.body').textContent"), text)
    settings(page, temperature="0")
    pick(page, "Regenerate", LAST)
    page.wait("document.querySelector('#notices').textContent.includes('With temperature 0 the same question gets the same answer.')")
    answered(page, 1)
    check("without a temperature the page says that there is no other answer", True)
    settings(page, temperature="0.7")
    pick(page, "Regenerate", LAST)
    page.wait(f"!({BUSY}) && conversation.messages[1].seed === 9")

    pick(page, "Verify", LAST)
    page.wait(f"{LAST}.querySelector('.receipt').dataset.verdict && {LAST}.querySelector('.receipt dl')")
    equal("the answer is verified", page.js(f"{LAST}.querySelector('.receipt').dataset.verdict"), "verified")
    check("all of its tokens", page.js(f"{LAST}.querySelector('.receipt').textContent").find("All 12 tokens") > 0)
    check("the receipt is shown", "inference-receipt" in page.js(f"{LAST}.querySelector('.receipt pre').textContent"))
    contrast(page, "receipt")
    page.js("conversation.messages[1].content += '!'")
    pick(page, "Verify", LAST)
    pick(page, "Verify", LAST)
    page.wait(f"{LAST}.querySelector('.receipt').dataset.verdict === 'failed'")
    check("a text that is not the receipt's is not verified", "not the one on this page" in page.js(f"{LAST}.querySelector('.receipt').textContent"))

    page.js(HOLD)
    settings(page, max_tokens="900")
    send(page, "Tell me a long story")
    page.wait(f"{BUSY} && {LAST}.querySelector('.body').textContent.length > 10")
    check("an answer comes in pieces", True)
    check("while it comes there is a button that stops it", page.js("document.querySelector('#send').hidden && !document.querySelector('#stop').hidden"))
    page.click("#stop")
    page.wait(f"!({BUSY})")
    figures = page.js(f"{LAST}.querySelector('.figures').textContent")
    check("it stops", figures.endswith("stopped"), figures)
    check("without a rate, which the server has not reported", "tok/s" not in figures, figures)
    page.wait("fetch('/v1/status').then(r => r.json()).then(s => s.queue.running === 0)", "the work ends too")
    check("and the work for it ends", True)
    send(page, "Another long story")
    page.wait(f"{BUSY} && {LAST}.querySelector('.body').textContent.length > 10")
    page.press("Escape")
    page.wait(f"!({BUSY})")
    check("Escape stops it too", True)
    page.js("globalThis.fetch = realFetch")

    settings(page, max_tokens="4")
    page.js("document.querySelector('#prompt').focus()")
    page.press("ArrowUp")
    page.wait("document.querySelector('.editing textarea')")
    equal("arrow up edits the last message", page.js("document.querySelector('.editing textarea').value"), "Another long story")
    page.type(" and more")
    page.press("Enter")
    answered(page, 3)
    equal("the edited message is in place", page.js("[...document.querySelectorAll('.mine .text')].pop().textContent"), "Another long story and more")
    page.js("document.querySelector('.mine').scrollIntoView()")
    pick(page, "Edit", "document.querySelector('.mine')")
    page.js("document.querySelector('.editing textarea').value = 'From the start'")
    pick(page, "Send", "document.querySelector('.editing')")
    answered(page, 1)
    equal("an edited first message replaces what followed", page.js("conversation.messages.length"), 2)
    clean(page, "chat")
    return page


def conversations(browser, url):
    page = chat(browser, url)
    page.click("#new")
    settings(page, max_tokens="3", system="Answer briefly.")
    send(page, "A second one")
    answered(page, 1)
    body = page.js("JSON.stringify(bodyOf(conversation, 1))")
    check("the system prompt and the settings are sent", all(part in body for part in ('"role":"system","content":"Answer briefly."', '"max_tokens":3', '"top_k":40')), body)
    equal("conversations are listed", page.js("[...document.querySelectorAll('#conversations li > button:first-child')].map(b => b.textContent)"),
          ["A second one", "From the start"])
    page.click("#conversations li:nth-child(2) button")
    equal("another one is opened", page.js("document.querySelector('.mine .text').textContent"), "From the start")
    page.go(url + "/")
    ready(page)
    equal("a reload keeps them", page.js("document.querySelectorAll('#conversations li').length"), 2)
    equal("and opens the last one", page.js("document.querySelector('.mine .text').textContent"), "A second one")
    page.js("globalThis.saved = []; saveFile = (name, text) => saved.push(name, text)")
    page.click("#export")
    exported = json.loads(page.js("saved[1]"))
    equal("they are exported as JSON", (exported["format"], [c["title"] for c in exported["conversations"]]), ("bn.conversations/1", ["A second one", "From the start"]))
    page.click("#conversations li:nth-child(2) .remove")
    equal("one is deleted", page.js("storedConversations().length"), 1)
    pick(page, "Undo", "document.querySelector('#notices')")
    equal("and brought back", page.js("storedConversations().length"), 2)
    page.js("globalThis.copied = []; Object.defineProperty(navigator, 'clipboard', {value: {writeText: async text => copied.push(text)}})")
    pick(page, "Copy", LAST)
    page.wait("copied.length === 1")
    equal("an answer is copied", page.js("copied[0]"), page.js("conversation.messages[1].content"))
    clean(page, "conversations")


HOSTILE = """<script>globalThis.pwned = 1</script> <img src=x onerror="pwned = 1"> ![alt](https://evil.example/x.png)
[a link](javascript:pwned=1) <a href="https://evil.example">x</a>
- <iframe src="https://evil.example"></iframe>

```html"><script>pwned=1</script>
</code></pre><script>pwned = 1</script>
```
**<b onclick="pwned=1">bold</b>** `<i>` """


def hostile(browser, url):
    page = browser.open(url + "/")
    ready(page)
    say(page, 1, "<img src=x onerror=pwned=1>", events(HOSTILE))
    equal("markup of a model makes no elements", page.js(f"{LAST}.querySelectorAll('script, img, iframe, a, i, b').length"), 0)
    shown = page.js(f"{LAST}.querySelector('.body').textContent")
    for part in ("<script>globalThis.pwned", "![alt](https://evil.example/x.png)", "[a link](javascript:pwned=1)", "</code></pre><script>", '<b onclick="pwned=1">bold</b>'):
        check(f"{part[:24]} is text", part in shown, shown)
    equal("markup of a person is text too", page.js("document.querySelector('.mine .text').children.length"), 0)
    page.go(url + "/")
    ready(page)
    check("also after a reload, and in the title", page.js("document.title").startswith("<img"), page.js("document.title"))
    equal("nothing was run", page.js("globalThis.pwned === undefined"), True)
    say(page, 2, "code", events("# Head\n\n1. one\n2. two\n   - in **it**\n\n__init__ and `a  b` and **open\n\n```c\nint x;\n\nint y;\n```\n> said\n"))
    equal("a little markdown is shown", page.js(f"""[...{LAST}.querySelectorAll('.body > *')].map(e => e.tagName + ':' + e.textContent.replace(/\\s+/g, ' ').trim())"""),
          ["H3:Head", "OL:onetwoin it", "P:__init__ and a b and **open", "FIGURE:cCopyint x; int y;", "BLOCKQUOTE:said"])
    equal("names with underscores are names", page.js(f"{LAST}.querySelectorAll('.body > p strong').length"), 0)
    say(page, 3, "think", events("<think>\nHmm <b>\n</think>\n\nFour."))
    equal("thoughts are folded", page.js(f"[{LAST}.querySelector('details').open, {LAST}.querySelector('details > div').textContent, {LAST}.querySelector('.body').textContent]"),
          [False, "Hmm <b>", "Four."])
    say(page, 4, "stars", events("*" * 20000 + "`" * 20001 + "#" * 2000 + " " * 20000 + "x", 4000))
    check("marks without an end do not stop the page", page.js(f"{LAST}.querySelector('.body').textContent.length > 60000"))
    # All events come at once here: a rate by their arrival would be another one.
    check("the rate is the server's", "9 tokens \u00b7 41.5 tok/s" in page.js(f"{LAST}.querySelector('.figures').textContent"), page.js(f"{LAST}.querySelector('.figures').textContent"))
    clean(page, "hostile")

    page.js("try { const s = document.createElement('script'); s.text = 'globalThis.pwned = 1'; document.body.append(s); } catch (e) { globalThis.refused = e.name; }")
    page.js("document.body.setAttribute('style', 'color: red')")
    page.wait("violations.length > 0")
    check("a script that a fault adds is refused, and noticed", page.js("globalThis.pwned === undefined") and page.violations(), page.violations())
    check("as is a style attribute", any(v.startswith("style-src") for v in page.violations()), page.violations())


def faults(browser, url):
    page = browser.open(url + "/")
    ready(page)
    cases = (
        (400, {"Content-Type": "application/json"}, error("This model's maximum context length is 9 tokens.", "context_length_exceeded"),
         "This model's maximum context length is 9 tokens.Edit the last message to shorten it."),
        (429, {"Content-Type": "application/json", "Retry-After": "7"}, error("64 answers are waiting already", "queue_full"), "The server is busy.64 answers are waiting already. There may be room in 7 s."),
        (502, {"Content-Type": "text/html"}, "<html>", "The server answered with status 502."),
        (200, STREAM, events("Half of", end=False), "The connection ended before the answer did.Check that bn-serve is still running, then try again."),
        (200, STREAM, f"data: {error('out of memory')}\n\ndata: [DONE]\n\n", "Out of memory."),
    )
    for n, (status, headers, body, want) in enumerate(cases):
        page.answer("*/v1/chat/completions", status, headers, body)
        send(page, "Hello")
        answered(page, n + 1)
        equal(f"status {status} is said in words ({want[:24]})", page.js(f"{LAST}.querySelector('.error').textContent"), want)
    buttons = "[...document.querySelectorAll('.answer')].map(e => [...e.querySelectorAll('.actions button')].some(b => b.textContent === 'Try again'))"
    equal("a second try is offered where it can help", page.js(buttons), [False, True, True, True, True])
    equal("what came before a fault stays", page.js("[...document.querySelectorAll('.answer .body')].map(e => e.textContent)[3]"), "Half of")
    contrast(page, "errors")
    pick(page, "Try again", LAST)
    page.wait(f"!({BUSY}) && !{LAST}.querySelector('.error')")
    check("a second try is answered", page.js(f"{LAST}.querySelector('.body').textContent.length > 0"))
    page.click("#stop") if page.js("!document.querySelector('#stop').hidden") else None
    clean(page, "faults", allowed=("Failed to load resource",))


def full(browser, url):
    """A context of 128 tokens."""
    page = browser.open(url + "/")
    ready(page)
    figures = f"{LAST}.querySelector('.figures').textContent"
    for n in (1, 2):
        send(page, "Who is there?")
        answered(page, n)
        check(f"answer {n} ends with the context, and that is said", page.js(figures).endswith("context full"), page.js(figures))
        equal("there is a place from which on the conversation is read", page.js("Boolean(document.querySelector('#dropped'))"), n == 2)
    equal("it is before the second turn", page.js("document.querySelector('#dropped').nextSibling === document.querySelectorAll('.message')[2]"), True)
    contrast(page, "full")
    settings(page, max_tokens="6")
    for n in range(3, 13):
        send(page, f"A message of a few words, number {n}")
        answered(page, n)
    equal("every message is answered", page.js("document.querySelectorAll('.error').length"), 0)
    # Eight turns of these sizes take more than the context holds.
    starts = page.js("conversation.messages.map((m, i) => [m, i]).filter(([m]) => m.role === 'user').map(([, i]) => i)")
    at = page.js("conversation.from")
    page.js("document.querySelectorAll('.answer .meta')[11].scrollIntoView()")
    equal("a long conversation scrolls, and not the page around it", page.js("[document.documentElement.scrollHeight - innerHeight, scrollY]"), [0, 0])
    check("whole turns are dropped, several at a time, and several stay", at in starts and 6 <= at <= 20, at)
    page.go(url + "/")
    ready(page)
    equal("a reload keeps the place", page.js("[conversation.from, [...document.querySelector('#log').children].indexOf(document.querySelector('#dropped'))]"), [at, at])
    send(page, "word " * 200)
    answered(page, 13)
    check("a message that is too long alone is refused", "maximum context length is 128 tokens" in page.js(f"{LAST}.querySelector('.error').textContent"), page.js(LAST + ".textContent"))
    pick(page, "Edit", "[...document.querySelectorAll('.mine')].pop()")
    page.js("document.querySelector('.editing textarea').value = 'Short'")
    pick(page, "Send", "document.querySelector('.editing')")
    answered(page, 13)
    equal("shortened it is answered", page.js("document.querySelectorAll('.error').length"), 0)
    page.js("document.querySelector('.mine').scrollIntoView()")
    pick(page, "Edit", "document.querySelector('.mine')")
    pick(page, "Send", "document.querySelector('.editing')")
    answered(page, 1)
    equal("from its beginning all of it is read again", page.js("[conversation.from, Boolean(document.querySelector('#dropped'))]"), [0, False])
    clean(page, "full", allowed=("Failed to load resource",))


def looks(browser, url):
    page = browser.open(url + "/", dark=True)
    ready(page)
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.js(paper)
    settings(page, max_tokens="3")
    send(page, "Hello")
    answered(page, 1)
    contrast(page, "dark")
    page.click("#theme")
    check("the switch changes to light", page.js(paper) != dark, dark)
    contrast(page, "light")
    page.go(url + "/")
    ready(page)
    check("a reload keeps that", page.js(paper) != dark)
    page.click("#theme")
    equal("and back", page.js(paper), dark)
    page.dark(False)
    page.wait(f"{paper} !== {json.dumps(dark)}")
    check("then it follows the system again", True)
    page.size(390, 844, touch=True)
    page.go(url + "/")
    ready(page)
    for address in ("/", "/dashboard"):
        page.go(url + address)
        page.wait("document.documentElement.dataset.ready === 'yes' || Number(document.documentElement.dataset.polls) > 0")
        equal(f"{address} fits a phone", page.js("[innerWidth, document.documentElement.scrollWidth]"), [390, 390])
    page.go(url + "/")
    ready(page)
    equal("the composer is at the bottom", page.js("innerHeight - document.querySelector('footer').getBoundingClientRect().bottom"), 0)
    check("the list is out of the way", page.js("!document.querySelector('#side').checkVisibility({visibilityProperty: true})"))
    page.click("#menu")
    check("it opens", page.js("document.querySelector('#side').checkVisibility({visibilityProperty: true})"))
    page.click("#new")
    check("and closes", page.js("!document.querySelector('#side').checkVisibility({visibilityProperty: true})"))
    clean(page, "looks")


def base(browser, url):
    page = browser.open(url + "/")
    ready(page)
    check("a base model is called one", "base model" in page.js("document.querySelector('#empty').textContent"))
    check("the field asks for a text", page.js("document.querySelector('#prompt').placeholder").startswith("Write"))
    settings(page, max_tokens="8")
    send(page, "ROMEO:")
    answered(page, 1)
    text = page.js(f"{LAST}.querySelector('.body').textContent")
    check("it continues the text", len(text) > 3 and page.js("conversation.messages[1].receipt.length") == 32, text)
    pick(page, "Continue", LAST)
    equal("which can go on", page.js("document.querySelector('#prompt').value"), "ROMEO:" + text)
    pick(page, "Verify", LAST)
    page.wait(f"{LAST}.querySelector('.receipt').dataset.verdict === 'verified'")
    check("and be verified", True)
    clean(page, "base model")


def dashboard(browser, url):
    page = browser.open(url + "/dashboard")
    page.wait("Number(document.documentElement.dataset.polls) >= 2")
    before = page.js("[...document.querySelectorAll('#plots path.line')].map(p => p.getAttribute('d'))")
    body = json.dumps({"prompt": "ROMEO:", "max_tokens": 900, "seed": 3, "n": 2}).encode()
    urllib.request.urlopen(urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"})).read()
    page.wait("[...document.querySelectorAll('#requests tbody tr')].filter(r => /^1 2 [0-9]+ 900 .* token limit$/.test([...r.cells].slice(1).map(c => c.textContent).join(' '))).length === 2")
    check("requests are listed with their tokens", True)
    page.wait(f"JSON.stringify([...document.querySelectorAll('#plots path.line')].map(p => p.getAttribute('d'))) !== {json.dumps(json.dumps(before))}")
    check("the plots move", True)
    check("plots have names", page.js("[...document.querySelectorAll('figure svg')].every(s => s.getAttribute('role') === 'img' && s.ariaLabel.length > 20)"))
    page.click("#plots summary")
    page.wait("document.querySelectorAll('#plots details[open] tbody tr').length > 0")
    check("and tables", True)
    busy = [{"sequence": 1, "client": 4, "state": "prompt", "position": 300, "prompt_tokens": 512, "generated_tokens": 0, "most_tokens": 8, "age_s": 0.5}]
    status = dict(json.load(urllib.request.urlopen(url + "/v1/status")), sequences=busy)
    for _ in range(1000):
        page.answer("*/v1/status", 200, {"Content-Type": "application/json"}, json.dumps(status))
    page.wait("document.querySelector('#sequences tbody tr') && document.querySelector('#sequences tbody').textContent === '2reading the prompt4 300 of 1,0245120500 ms'")
    check("sequences are listed", True)
    check("one model needs no table", page.js("document.querySelector('#models').hidden && document.querySelectorAll('.several:not([hidden])').length === 0"))
    page.answer_no_more()
    model = dict(status["models"][0], id="a<b>.gguf", users=2)
    several = dict(status, models=[model, dict(model, id="b.gguf", state="closed", users=0, sequences=0, context_bytes=0, idle_s=None)],
                   sequences=[dict(busy[0], model="a<b>.gguf", n_ctx=512)], requests=[dict(status["requests"][0], model="b.gguf")])
    for _ in range(1000):
        page.answer("*/v1/status", 200, {"Content-Type": "application/json"}, json.dumps(several))
    page.wait("!document.querySelector('#models').hidden")
    equal("several models are listed", page.js("[...document.querySelectorAll('#models tbody tr')].map(r => [...r.cells].slice(0, 4).map(c => c.textContent).join(' '))"), ["a<b>.gguf open 2 0", "b.gguf closed 0 0"])
    check("sequences name theirs", page.js("document.querySelector('#sequences tbody').textContent") == "2a<b>.ggufreading the prompt4 300 of 5125120500 ms")
    check("requests too", page.js("document.querySelector('#requests tbody tr').cells[1].textContent") == "b.gguf")
    page.answer_no_more()
    # The rate changes from poll to poll.
    figures = """(() => { const number = e => e.textContent.replace(/^[^0-9]*/, '').replace(/ .*/, '');
        return [[...document.querySelectorAll('.tile b')].slice(0, 2).map(number), [...document.querySelectorAll('#plots .legend')].slice(0, 1).flatMap(e => [...e.querySelectorAll('b')].map(number))]; })()"""
    for k in range(1, 7):
        counters = dict(status["counters"], generated_tokens=100 * k * k, prompt_tokens=30 * k * k, cached_tokens=10 * k, passes=10**9 + k)
        page.answer("*/v1/status", 200, {"Content-Type": "application/json"}, json.dumps(dict(status, started=1, uptime_s=10**6 + k, counters=counters)))
    page.wait("polls.length === 6 && latest().started === 1", "six polls")
    equal("a tile and the legend of its plot have the same rates", page.js(figures), [["800", "230"], ["800", "230"]])
    equal("the tokens of prompts are counted", page.js("document.querySelectorAll('.tile span')[1].textContent"), "1,080 tokens since the start")
    page.answer_no_more()
    page.click("#pause")
    polls = page.js("document.documentElement.dataset.polls")
    time.sleep(1.5)
    check("pause ends the polling", int(page.js("document.documentElement.dataset.polls")) <= int(polls) + 1)
    page.click("#pause")
    page.wait(f"Number(document.documentElement.dataset.polls) > {int(polls) + 1}")
    contrast(page, "dashboard")
    page.dark(True)
    contrast(page, "dark dashboard")
    clean(page, "dashboard")


def reports(browser, url):
    page = browser.open(url + "/dashboard")
    page.wait("document.querySelector('#reports a')")
    equal("reports are listed", page.js("[...document.querySelectorAll('#reports a')].map(a => a.textContent)"), ["note.md", "report.html"])
    report = browser.open(page.js("document.querySelectorAll('#reports a')[1].href"))
    equal("a report is shown", report.js("document.querySelector('h1').textContent"), "A report")
    equal("without the origin of the server", report.js("origin"), "null")
    clean(page, "reports")


def keys(browser, url, key):
    page = browser.open(url + "/")
    page.wait("document.querySelector('dialog[open] #key')")
    check("the page asks for the key", True)
    page.type("not the right one at all")
    page.press("Enter")
    page.wait("document.querySelector('dialog[open]') && document.querySelector('dialog[open]').textContent.includes('was not accepted')")
    check("a wrong one is not accepted", True)
    page.type(key)
    page.press("Enter")
    ready(page)
    settings(page, max_tokens="3")
    send(page, "Hello")
    answered(page, 1)
    check("with the right one it answers", page.js(f"!{LAST}.querySelector('.error')"))
    pick(page, "Verify", LAST)
    page.wait(f"{LAST}.querySelector('.receipt').dataset.verdict === 'verified'")
    check("and verifies", True)
    receipt = page.js("conversation.messages[1].receipt")
    equal("the key is in the storage of the tab only", page.js(f"[sessionStorage.getItem('bn.key') === {json.dumps(key)}, JSON.stringify(localStorage).includes({json.dumps(key)})]"), [True, False])
    page.go(url + "/dashboard")
    page.wait("Number(document.documentElement.dataset.polls) > 0")
    check("the dashboard of the same tab has it", True)
    shared(browser, url, receipt, key)
    clean(page, "keys", allowed=("401",))


def shared(browser, url, receipt, key=None):
    """The link to a receipt, in a browser that knows nothing."""
    page = browser.open(url + "/#receipt=" + receipt)
    if key:
        page.wait("document.querySelector('dialog[open] #key')")
        check("a link asks for the key first", page.js("!document.querySelector('#shared dl')"))
        page.type(key)
        page.press("Enter")
    page.wait("document.querySelector('#shared dl')")
    facts = page.js("[...document.querySelectorAll('#shared dd')].map(e => e.textContent)")
    check("a link shows the facts of its receipt", facts[0] == receipt and facts[2].endswith(".gguf"), facts)
    replays = "fetch('/v1/status', {headers: {Authorization: 'Bearer ' + storedKey()}}).then(r => r.json()).then(s => s.requests.filter(r => r.end === 'replay').length)"
    before = page.js(replays)
    pick(page, "Verify", "document.querySelector('#shared')")
    page.wait("document.querySelector('#shared .receipt').dataset.verdict")
    equal("and verifies it by a click", page.js("document.querySelector('#shared .receipt').dataset.verdict"), "verified")
    equal("which is one replay", page.js(replays) - before, 1)
    check("with the text", len(page.js("document.querySelector('.replayed').textContent")) > 3)
    contrast(page, "link")
    page.size(390, 844, touch=True)
    equal("a link fits a phone", page.js("[innerWidth, document.documentElement.scrollWidth]"), [390, 390])
    clean(page, "link", allowed=("401",))
    return facts


def signed(browser, url):
    page = browser.open(url + "/")
    ready(page)
    settings(page, max_tokens="3")
    send(page, "Hello")
    answered(page, 1)
    facts = shared(browser, url, page.js("conversation.messages[1].receipt"))
    check("a signature is named", facts[-1].startswith("yes"), facts)


def thinks(browser, url):
    """A model with thoughts and functions; what it says is random, and calls are required."""
    page = browser.open(url + "/")
    ready(page)
    verdict = f"{LAST}.querySelector('.receipt').dataset.verdict"
    settings(page, max_tokens="24", seed="5", tools=json.dumps([{"type": "function", "function": {
        "name": "weather", "parameters": {"type": "object", "properties": {"city": {"enum": ["Bremen"]}}, "required": ["city"], "additionalProperties": False}}}]))
    send(page, "Hello")
    answered(page, 1)
    check("thoughts of the server are folded", page.js(f"!{LAST}.querySelector('.error') && {LAST}.querySelector('details').textContent.startsWith('Thoughts, ')"), page.js(LAST + ".textContent"))
    pick(page, "Verify", LAST)
    page.wait(verdict)
    equal("an answer with thoughts is verified", page.js(verdict), "verified")
    page.js("globalThis.usual = bodyOf; bodyOf = (...a) => Object.assign(usual(...a), {max_tokens: 200, tool_choice: 'required', chat_template_kwargs: {enable_thinking: false}})")
    send(page, "How is the weather?")
    answered(page, 2)
    equal("a call of the server is shown", page.js(f"[...{LAST}.querySelectorAll('.calls figcaption span, .calls code')].slice(0, 2).map(e => e.textContent)"), ["Call of weather", '{\n  "city": "Bremen"\n}'])
    pick(page, "Verify", LAST)
    page.wait(verdict)
    equal("an answer with a call is verified", page.js(verdict), "verified")
    check("and its text is shown", "<tool_call>" in page.js(f"{LAST}.querySelector('.replayed').textContent"))
    page.js("bodyOf = usual")
    for n in range(page.js("document.querySelectorAll('.results textarea').length")):
        page.click(".results textarea", n)
        page.type('{"rain": true}')
    page.press("Enter")
    answered(page, 3)
    check("the server takes the result", page.js(f"!{LAST}.querySelector('.error') && {LAST}.querySelector('.text').textContent.length > 3"), page.js(LAST + ".textContent"))
    clean(page, "thoughts and calls")


def several(browser, url):
    page = browser.open(url + "/")
    ready(page)
    names = page.js("models.map(m => m.id)")
    settings(page, max_tokens="3")
    page.click("#open-settings")
    page.js("document.querySelector('#model-choice').focus()")
    page.press("ArrowDown")
    pick(page, "Done", "document.querySelector('#settings')")
    equal("a model that is not open says so", page.js("[document.querySelector('#model').textContent, document.querySelector('#about').textContent]"), [names[1], "Opened by its first message"])
    send(page, "Hello")
    answered(page, 1)
    check("it answers", page.js(f"{LAST}.querySelector('.figures').textContent").startswith(names[1] + " \u00b7 3 tokens"), page.js(LAST + ".textContent"))
    check("then its template is known", page.js("document.querySelector('#about').textContent").startswith("Template "), page.js("document.querySelector('#about').textContent"))
    pick(page, "Verify", LAST)
    page.wait(f"{LAST}.querySelector('.receipt').dataset.verdict")
    equal("it is verified by its own model", page.js(f"{LAST}.querySelector('.receipt').dataset.verdict"), "verified")
    clean(page, "several models")


PARTS = {f.__name__: f for f in (chat, conversations, hostile, faults, full, looks, base, dashboard, reports, keys, signed, thinks, several)}

if __name__ == "__main__":
    with Browser() as browser:
        try:
            PARTS[sys.argv[1]](browser, *sys.argv[2:])
        except Exception:  # pylint: disable=broad-except
            check(sys.argv[1] + " runs to its end", False, traceback.format_exc())
