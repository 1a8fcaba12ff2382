# SPDX-License-Identifier: MIT
"""The chat page with answers that a test makes up (planted_server.py): Markdown, thoughts, calls, models, dropped turns, links,
keyboard and screen reader. Each gate is used on the page, and on pages with a fault, which one of its checks has to notice.
python3 chat_pages.py GATE URL, URL of a bn-serve whose page is tested; prints lines as serve_pages.py does.
"""
import json
import sys
import threading
import traceback

from browser import Browser
from planted_server import MODEL, PlantedServer, event, last, said
from serve_pages import BUSY, CONTRAST, HOSTILE, LAST, answered, check, pick, ready, send, settings

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}
BODY = LAST + ".querySelector('.body')"
SETTINGS = "document.querySelector('#settings')"

# Words of usual length that are shown on more than one line.
BROKEN = """(() => {
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT), broken = [];
    for (let node; (node = walker.nextNode());) {
        if (!node.parentElement.checkVisibility() || node.parentElement.closest(".hidden, textarea")) continue;
        for (const word of node.data.matchAll(/[A-Za-z]{1,16}/g)) {
            if (/[^\\s]{30}/.test(node.data.slice(Math.max(0, word.index - 30), word.index + 46))) continue;
            const range = document.createRange();
            range.setStart(node, word.index);
            range.setEnd(node, word.index + word[0].length);
            if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1) broken.push(word[0]);
        }
    }
    return broken;
})()"""

# Random texts of marks and words, at once and in pieces: {elements, lost, pieces}, what is wrong with them.
RANDOM = """(() => {
    let state = 1;
    const next = n => { state = (state * 1103515245 + 12345) % 2147483648; return Math.floor(state / 65536) % n; };
    const marks = ["*", "**", "_", "__", "***", "`", "``", "```\\n", "~~~\\n", "\\n", "\\n\\n", "|", "|-|-|\\n", "|--|:-:|\\n", "- ", "1. ", "> ", "# ", "    ", "\\t", " ", " ", " ",
        "\\\\", "[", "](", ")", "](https://x.example/", "!", "<b>", "<script>", "&lt;", "---\\n", "\\r\\n", ":", "(", "."];
    const allowed = new Set("DIV P H3 H4 H5 H6 UL OL LI BLOCKQUOTE FIGURE FIGCAPTION PRE CODE SPAN BUTTON EM STRONG HR TABLE THEAD TBODY TR TH TD".split(" "));
    const wrong = {elements: [], lost: [], pieces: []};
    for (let round = 0; round < 3000; round++) {
        let text = "", words = 0;
        for (let i = 0, n = 1 + next(40); i < n; i++) text += next(3) ? marks[next(marks.length)] : "w" + words++ + (next(2) ? "x" : "");
        const whole = document.createElement("div"), pieces = document.createElement("div");
        putMarkdown(whole, text);
        for (let at = 0; at < text.length; at += 1 + next(9)) putMarkdown(pieces, text.slice(0, at));
        putMarkdown(pieces, text);
        wrong.elements.push(...[...whole.querySelectorAll("*")].filter(e => !allowed.has(e.tagName) || e.getAttributeNames().some(a => !/^(class|start|tabindex|role|type|aria-label)$/.test(a))).map(e => e.outerHTML));
        if (String(whole.textContent.match(/w[0-9]+x?/g)) !== String(text.match(/w[0-9]+x?/g))) wrong.lost.push(text + " => " + whole.innerHTML);
        if (pieces.innerHTML !== whole.innerHTML) wrong.pieces.push(text);
    }
    return {elements: wrong.elements.slice(0, 3), lost: wrong.lost.slice(0, 3), pieces: wrong.pieces.slice(0, 3)};
})()"""

SHAPES = """const shape = e => e.tagName === "BUTTON" ? "" : e.tagName.toLowerCase() + (e.className === "right" || e.className === "center" ? "." + e.className : "") + "(" +
    [...e.childNodes].map(n => n.nodeType === 3 ? n.data.replace(/\\s+/g, " ") : shape(n)).join("") + ")";"""

MARKDOWN = (
    ("# One #\n\n###### Six", "h3(One)h6(Six)"),
    ("a **b** *c* ***d*** _e_ __f g__ **h *i* j**", "p(a strong(b) em(c) strong(em(d)) em(e) strong(f g) strong(h em(i) j))"),
    ("__init__ and a*b*c and snake_case_name and 2**3**4 and char *a, *b and 2 * 3 * 4", "p(__init__ and a*b*c and snake_case_name and 2**3**4 and char *a, *b and 2 * 3 * 4)"),
    ("`__init__` and ``a `b` c`` and **open and `open", "p(code(__init__) and code(a `b` c) and **open and `open)"),
    ("\\*no\\* and C:\\_x and \\[ x^2 \\]", "p(*no* and C:_x and \\[ x^2 \\])"),
    ("[the *page*](https://x.example/a_b_c) and [x](javascript:a) and ![i](https://x.example/i)", "p(the em(page)span( (https://x.example/a_b_c)) and [x](javascript:a) and ![i](https://x.example/i))"),
    ("- a\n- b\n  1. c\n  2. d\n\n     more\n- e", "ul(li(a)li(bol(li(c)li(dp(more))))li(e))"),
    ("3. a\n   ```c\n   x\n\n     y\n   ```\n4. b", "ol(li(afigure(figcaption(span(c))pre(code(x y))))li(b))"),
    ("| A | B | C |\n|:--|--:|:-:|\n| `x|y` | 1 | **z** |\n| \\| | 2 |\n| a | b | c | d |",
     "div(table(thead(tr(th(A)th.right(B)th.center(C)))tbody(tr(td(code(x|y))td.right(1)td.center(strong(z)))tr(td(|)td.right(2)td.center())tr(td(a)td.right(b)td.center(c | d)))))"),
    ("a | b\nc | d", "p(a | b c | d)"),
    ("> a\n> - b\n> > c", "blockquote(p(a)ul(li(b))blockquote(p(c)))"),
    ("a\n\n---\n\n* * *\nb", "p(a)hr()hr()p(b)"),
    ("~~~py x\na\n```\nb", "figure(figcaption(span(py))pre(code(a ``` b)))"),
)

PLAN = """## A plan for the house

The **house** has *three* rooms, and `__init__` stays a name. See [the manual](https://example.org/manual/with/a/very/long/address/that/does/not/end).

1. First the floor:
   ```bash
   make all && run --with-a-very-long-option-that-does-not-fit-into-a-line=of-a-telephone
   ```
2. Then the walls

| Room | Area | Price (EUR) | Notes |
|:-----|:----:|------------:|-------|
| Kitchen | 12 m2 | 1,200.50 | the old one had a `a|b` pipe |
| Bathroom | 6 m2 | 900 | *tiles* and a longer remark that goes over more than one line of a narrow column |

> Measure twice, cut once, and then call the carpenter for the remaining parts of the house.

Donaudampfschifffahrtsgesellschaftskapitaenskajuetenschluesselanhaengerverkaufsstellenleiterinnenausbildung ends.
"""


class Noticed(Exception):
    """The check with this title has noticed a planted fault."""


class Gate:
    """The checks of a gate: printed, or on a page with a fault until one fails."""

    def __init__(self, browser, server, fault=None):
        self.browser, self.server, self.planted, self.pages = browser, server, fault is not None, []
        server.begin(fault)

    def open(self, path="", **options):
        page = self.browser.open(self.server.url + path, **options)
        self.pages.append(page)
        ready(page)
        return page

    def check(self, title, good, found=""):
        if not self.planted:
            check(title, good, found)
        elif not good:
            raise Noticed(f"{title}: {found!r}")

    def equal(self, title, got, want):
        self.check(title, got == want, got)

    def clean(self, allowed=()):
        for page in self.pages:
            self.equal("no errors on the console", [f for f in page.faults if not any(a in f for a in allowed)], [])
            self.equal("the policy was not violated", page.violations(), [])

    def say(self, page, n, prompt, *reply):
        """The nth answer is this reply."""
        self.server.replies.append(*reply)
        send(page, prompt)
        answered(page, n)


# ---- the gates ----

def markdown(g):
    page = g.open()
    page.js(SHAPES + "globalThis.shape = shape")
    for text, want in MARKDOWN:
        got = page.js(f"(() => {{ const e = document.createElement('div'); putMarkdown(e, {json.dumps(text)}); return [...e.children].map(shape).join(''); }})()")
        g.equal("Markdown is shown: " + text.split("\n")[0][:60], got, want)
    found = page.js(RANDOM)
    g.equal("random texts make only elements without effects", found["elements"], [])
    g.equal("random texts lose no word", found["lost"], [])
    g.equal("random texts are the same in pieces and at once", found["pieces"], [])
    hold, code = threading.Event(), "if a:\n\tb = '*'  # |\n\n\n  **c**\n"
    g.server.replies.append([event(content="Look:\n\n```py"), event(content="thon\n" + code), hold, event(content="```\n\nafter")] + last())
    send(page, "Code")
    page.wait(f"{BODY}.querySelector('figure') && {BODY}.querySelector('code').textContent.includes('**c**')")
    g.equal("code is shown while it comes", page.js(f"[...{BODY}.children].map(e => e.tagName).join()"), "P,FIGURE")
    hold.set()
    answered(page, 1)
    page.js("globalThis.copied = []; Object.defineProperty(navigator, 'clipboard', {value: {writeText: async text => copied.push(text)}})")
    pick(page, "Copy", BODY)
    page.wait("copied.length === 1")
    g.equal("code is copied to the byte", page.js("copied[0]"), code.rstrip("\n"))
    g.equal("and has its language", page.js(f"{BODY}.querySelector('figcaption span').textContent"), "python")
    g.say(page, 2, "Marks", said(("*a _b __c ***d `e [f " * 4000) + "\n" + "> " * 3000 + "\n" + "- " * 3000 + "x\n" + "|" * 9000 + "\n" + "|-" * 9000, 40000))
    g.check("many marks do not stop the page", page.js(f"{BODY}.textContent.length") > 60000)
    g.clean()


def markup(g):
    page = g.open()
    g.say(page, 1, "Hello", [event(reasoning_content=HOSTILE), event(content=HOSTILE), event(calls=[(0, "a", "<b>x</b>", json.dumps({"a": HOSTILE}))])] + last("tool_calls"))
    g.equal("markup of a model makes no elements", page.js(f"{LAST}.querySelectorAll('script, img, iframe, a, i, b').length"), 0)
    g.check("but is text", page.js(f"['.thoughts', '.body', '.calls'].every(s => {LAST}.querySelector(s).textContent.includes('<script>globalThis.pwned'))"))
    g.equal("nothing was run", page.js("globalThis.pwned === undefined"), True)
    g.clean()


def wraps(g):
    for width in (1280, 390):
        page = g.open(width=width, height=844)
        g.say(page, 1, "Who is at the door of the house at this time of the night, and what do they want from us?",
              [event(reasoning_content="The house has a door, and somebody is there. " * 3)] + said(PLAN))
        page.click(".thoughts summary")
        g.equal(f"words are whole, {width} wide", page.js(BROKEN), [])
        g.equal(f"nothing is wider than the page, {width} wide",
                page.js("[...document.querySelectorAll('#scroll *')].filter(e => !e.closest('pre, .table, .hidden') && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"), [])
    g.clean()


def thoughts(g):
    page = g.open()
    summary, details = f"{LAST}.querySelector('summary').textContent", f"{LAST}.querySelector('details')"
    holds = [threading.Event(), threading.Event()]
    g.server.replies.append([event(role="assistant", content=""), event(reasoning_content="I have "), event(reasoning_content="to think."), holds[0],
                             event(reasoning_content=" And so on."), holds[1], event(content="\n\nFo"), event(content="ur.")] + last())
    send(page, "2+2?")
    page.wait(f"{BODY} && {details} && {details}.textContent.includes('to think.')")
    g.equal("thoughts are folded while they come", page.js(f"[{details}.open, {summary}]"), [False, "Thinking, 4 words"])
    page.click(".thoughts summary")
    holds[0].set()
    page.wait(f"{details}.textContent.includes('so on.')")
    g.equal("they stay open when somebody has opened them", page.js(f"[{details}.open, {summary}]"), [True, "Thinking, 7 words"])
    holds[1].set()
    answered(page, 1)
    g.equal("also when the answer comes", page.js(f"[{details}.open, {summary}, {details}.querySelector('div').textContent, {BODY}.textContent]"), [True, "Thoughts, 7 words", "I have to think. And so on.", "Four."])
    g.say(page, 2, "3+3?", [event(content="<think>\nHmm "), event(content="<b>\n</think>\n\nSix.")] + last())
    g.equal("a think block is folded, too", page.js(f"[{details}.open, {summary}, {BODY}.textContent]"), [False, "Thoughts, 2 words", "Six."])
    g.say(page, 3, "Tags?", said("`<think>` opens thoughts, `</think>` ends them."))
    g.equal("a tag in an answer is text", page.js(f"[{LAST}.querySelectorAll('details').length, {BODY}.textContent]"), [0, "<think> opens thoughts, </think> ends them."])
    g.equal("thoughts of earlier answers are not sent", g.server.body()["messages"][1], {"role": "assistant", "content": "\n\nFour."})
    g.check("the rate is the server's", "9 tokens \u00b7 41.5 tok/s" in page.js(f"{LAST}.querySelector('.figures').textContent"), page.js(f"{LAST}.querySelector('.figures').textContent"))
    g.server.receipts["0" * 32] = {"a": 1}
    for n, (text, want) in enumerate((("<think>\nI have to think. And so on.\n</think>\n\nFour.", "verified"), ("I have to think. And so on.</think>\n\nFive.", "failed"))):
        g.server.verdict = {"verified": True, "text": text, "tokens": 9, "seconds": 0.25, "model": "m"}
        for _ in range(1 + (n > 0)):
            pick(page, "Verify", "document.querySelector('.answer')")
        page.wait("document.querySelector('.answer .receipt').dataset.verdict && document.querySelector('.answer .receipt dl')")
        g.equal(f"an answer with thoughts is {want} by its text", page.js("document.querySelector('.answer .receipt').dataset.verdict"), want)
    g.check("the time of a replay is the server's", "250 ms" in page.js("document.querySelector('.answer .receipt').textContent"))
    g.clean()


def tools(g):
    page = g.open()
    wrong = (("[{", "not JSON"), ("{}", "list"), ('[{"name": "x"}]', "Tool 1 is not"), (json.dumps([TOOL, TOOL]), "Tool 2 has the name"),
             (json.dumps([{"type": "function", "function": {"name": "a b"}}]), "name of up to 64"), ('[null]', "Tool 1 is not"),
             (json.dumps([{"type": "function", "function": {"name": "a", "parameters": []}}]), "not a JSON schema"))
    for text, what in wrong:
        settings(page, tools=text)
        page.wait(f"document.querySelector('#notices').textContent.startsWith('The tools are not sent.') && document.querySelector('#notices').textContent.includes({json.dumps(what)})")
        g.check(f"wrong tools are refused in words: {what}", True)
    g.say(page, 1, "Hello", said("Hi."))
    g.check("and are not sent", "tools" not in g.server.body())
    settings(page, tools=json.dumps([TOOL]))
    g.check("the header says that there is a tool", page.js("document.querySelector('#about').textContent").endswith("1 tool"))
    page.go(g.server.url)
    ready(page)
    holds = [threading.Event()]
    pieces = [event(calls=[(0, "call_a", "weather", "")]), event(calls=[(0, None, None, '{"city": "Br')]), holds[0], event(calls=[(0, None, None, 'emen", "n": 12345678901234567890, "a": []}')]),
              event(calls=[(1, "call_b", "now", "{}")])]
    g.server.replies.append([event(content="I look.")] + pieces + last("tool_calls"))
    send(page, "How is the weather?")
    page.wait(f"{LAST}.querySelector('.calls') && {LAST}.querySelector('.calls').textContent.includes('Br')")
    g.equal("tools are remembered, and sent", g.server.body().get("tools"), [TOOL])
    g.equal("a call is shown while it comes", page.js(f"[{LAST}.querySelector('.calls figcaption span').textContent, {LAST}.querySelector('.calls code').textContent]"), ["Call of weather", '{"city": "Br'])
    g.equal("without a field yet", page.js("document.querySelectorAll('.results').length"), 0)
    holds[0].set()
    answered(page, 2)
    g.equal("its arguments have lines, and all digits", page.js(f"[...{LAST}.querySelectorAll('.calls code')].map(e => e.textContent)"),
            ['{\n  "city": "Bremen",\n  "n": 12345678901234567890,\n  "a": []\n}', "{}"])
    g.equal("each call has a field with a label", page.js("[...document.querySelectorAll('.results textarea')].map(e => e.labels[0].textContent)"), ["Result of weather", "Result of now"])
    g.check("which is said", "asks for 2 results" in page.js("document.querySelector('#said').textContent"))
    g.server.replies.append(said("It rains."))
    page.click(".results textarea", 1)
    page.type("12:00")
    page.click(".results textarea")
    page.type('{"rain": true}')
    page.press("Enter")
    answered(page, 3)
    call = lambda i, name, text: {"id": i, "type": "function", "function": {"name": name, "arguments": text}}  # pylint: disable=unnecessary-lambda-assignment
    g.equal("results go on with the conversation", g.server.body()["messages"][2:], [
        {"role": "user", "content": "How is the weather?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call("call_a", "weather", '{"city": "Bremen", "n": 12345678901234567890, "a": []}'), call("call_b", "now", "{}")]},
        {"role": "tool", "tool_call_id": "call_a", "content": '{"rain": true}'}, {"role": "tool", "tool_call_id": "call_b", "content": "12:00"}])
    g.equal("and are shown", page.js("[...document.querySelectorAll('.calls figcaption span')].map(e => e.textContent)"), ["Call of weather", "Result of weather", "Call of now", "Result of now"])
    g.equal("the fields are gone", page.js("document.querySelectorAll('.results').length"), 0)
    # A message instead of a result, and a call that was stopped halfway.
    g.say(page, 4, "And then?", [event(calls=[(0, "c", "now", "")])] + last("tool_calls"))
    g.say(page, 5, "Never mind", said("As you like."))
    g.equal("a call without a result is not sent", g.server.body()["messages"][-2:], [{"role": "user", "content": "And then?"}, {"role": "user", "content": "Never mind"}])
    g.say(page, 6, "Stop", [event(calls=[(0, "c", "now", '{"a": ')])] + last("length"))
    g.equal("a call that is not whole is text", page.js(f"[{LAST}.querySelector('.calls code').textContent, document.querySelectorAll('.results').length]"), ['{"a": ', 0])
    page.go(g.server.url)
    ready(page)
    g.equal("a reload keeps calls and results", page.js("[...document.querySelectorAll('.calls figcaption span')].length"), 6)
    g.clean()


def models(g):
    page = g.open()
    page.click("#open-settings")
    g.equal("one model is no choice", page.js("document.querySelector('#model-field').hidden"), True)
    pick(page, "Done", SETTINGS)
    g.say(page, 1, "Hello", said("Hi."))
    g.check("and its name is not repeated", "planted.gguf" not in page.js(f"{LAST}.querySelector('.figures').textContent"))
    g.server.models = [MODEL, dict(MODEL, id="other.gguf", max_model_len=None)]
    page.go(g.server.url)
    ready(page)
    page.click("#open-settings")
    page.js("document.querySelector('#model-choice').focus()")
    page.press("ArrowDown")
    pick(page, "Done", SETTINGS)
    g.equal("another model is selected", page.js("[document.querySelector('#model').textContent, document.querySelector('#about').textContent]"), ["other.gguf", "Template qwen3"])
    g.say(page, 2, "Hello", [dict(e, model="other.gguf") for e in said("Ho.")])
    g.equal("and asked", g.server.body()["model"], "other.gguf")
    g.equal("answers name their models", page.js("[...document.querySelectorAll('.figures')].map(e => e.textContent.split(' ')[0]).filter(Boolean)"), ["planted.gguf", "other.gguf"])
    page.go(g.server.url)
    ready(page)
    g.equal("the choice is remembered", page.js("document.querySelector('#model').textContent"), "other.gguf")
    g.server.models = [MODEL]
    page.go(g.server.url)
    ready(page)
    g.equal("a model that is gone is not asked", page.js("bodyOf(conversation, 1).model"), "planted.gguf")
    g.clean()


def long(g):
    page = g.open()
    for n in (1, 2, 3):
        g.say(page, n, f"Message {n}", said(f"Answer {n}"))
    g.equal("the server is asked to drop turns", g.server.body().get("truncation"), "auto")
    g.equal("nothing is dropped yet", page.js("document.querySelectorAll('#dropped').length"), 0)
    g.say(page, 4, "Message 4", [event(content="Answer 4")] + last(dropped_turns=2))
    g.equal("what the server dropped is said, at its place", page.js("[document.querySelector('#dropped')?.textContent, [...document.querySelector('#log').children].indexOf(document.querySelector('#dropped'))]"),
            ["The 4 oldest messages were left out to fit the context.", 4])
    g.say(page, 5, "Message 5", said("Answer 5"))
    g.equal("the next request leaves out some more", [m["content"] for m in g.server.body()["messages"]], ["Message 4", "Answer 4", "Message 5"])
    g.equal("which is said", page.js("document.querySelector('#dropped')?.textContent"), "The 6 oldest messages were left out to fit the context.")
    g.say(page, 6, "Message 6", said("Answer 6"))
    g.equal("and the one after that only adds to it", [m["content"] for m in g.server.body()["messages"]], ["Message 4", "Answer 4", "Message 5", "Answer 5", "Message 6"])
    g.server.replies.append((400, {"error": {"message": "too long", "code": "context_length_exceeded"}}))
    send(page, "Message 7")
    answered(page, 7)
    g.equal("a message that is too long alone is refused", page.js(f"[{LAST}.querySelector('.error').textContent, conversation.from]"), ["Too long.Edit the last message to shorten it.", 6])
    g.clean(allowed=("400",))


def links(g):
    receipt = "ab" * 16
    g.server.receipts[receipt] = {"predicate": {"timestamp": "2026-01-02T03:04:05Z", "model": {"path": "m.gguf", "sha256": "cd" * 32}, "machine": {"cpu_model": "<b>A CPU</b>"},
        "request": {"temperature": 0.5, "top_k": 40, "top_p": 1, "min_p": 0, "repeat_penalty": 1, "seed": 12345678901234567890, "template": "qwen3"},
        "result": {"prompt_tokens": 7, "ids": [1, 2, 3], "chain": "ef" * 32}}}
    g.server.verdict = {"verified": True, "text": "Four <b>.", "tokens": 3, "seconds": 0.25, "model": "m.gguf"}
    page = g.open("#receipt=" + receipt)
    page.wait("document.querySelector('#shared dl')")
    text = page.js("document.querySelector('#shared').textContent")
    g.check("a link shows the facts of a receipt", all(part in text for part in ("2026-01-02T03:04:05Z", "m.gguf", "temperature 0.5", "3 tokens", "ef" * 32, "<b>A CPU</b>", "Signaturenone")), text)
    g.check("with all digits of the seed", "Seed12345678901234567890" in text, text)
    g.equal("it covers the chat", page.js("['#log', '#empty', 'footer'].map(s => document.querySelector(s).checkVisibility())"), [False, False, False])
    g.equal("the title is in focus", page.js("document.activeElement.textContent"), "Receipt of an answer")
    pick(page, "Verify", "document.querySelector('#shared')")
    page.wait("document.querySelector('#shared .receipt').dataset.verdict")
    g.equal("a click replays it, and shows the text", page.js("[document.querySelector('#shared .receipt').dataset.verdict, document.querySelector('.replayed').textContent]"), ["verified", "Four <b>."])
    pick(page, "Open the chat", "document.querySelector('#shared')")
    page.wait("document.querySelector('footer').checkVisibility() && document.querySelector('#shared').hidden")
    g.say(page, 1, "Hello", [event(content="Hi.")] + last(receipt=receipt))
    page.js("globalThis.copied = []; Object.defineProperty(navigator, 'clipboard', {value: {writeText: async text => copied.push(text)}})")
    pick(page, "Copy link", LAST)
    page.wait("copied.length === 1")
    g.equal("an answer has the link to its receipt", page.js("copied[0]"), g.server.url + "#receipt=" + receipt)
    for wrong, want in (("../models", "This link does not name a receipt."), ("f" * 32, "No such receipt.The server keeps the receipts of its last answers only.")):
        page = g.open("#receipt=" + wrong)
        page.wait("document.querySelector('#shared .error')")
        g.equal(f"a link to {wrong[:9]} is refused in words", page.js("document.querySelector('#shared .error').textContent"), want)
    # All requests of the first page have come by now.
    g.equal("nothing is replayed without a click", [path for path, _ in g.server.requests if path.endswith("replay")], [f"/v1/receipts/{receipt}/replay"])
    g.clean(allowed=("404",))


def access(g):
    page = g.open()
    g.say(page, 1, "Plan", [event(reasoning_content="A table.")] + said(PLAN))
    g.say(page, 2, "Weather", [event(calls=[(0, "a", "weather", "{}")])] + last("tool_calls"))
    nested = "[...document.querySelectorAll('#log [aria-live], #log [role=alert], #log [role=status], #log [role=log]')].filter(e => e.ariaLive !== 'off').map(e => e.outerHTML.slice(0, 60))"
    g.equal("messages are a log", page.js("document.querySelector('#log').getAttribute('role')"), "log")
    g.equal("nothing in the log is read twice", page.js(nested), [])
    g.server.replies.append((500, {"error": {"message": "oh", "code": None}}))
    send(page, "More")
    answered(page, 3)
    g.equal("an error neither", page.js(nested + ".concat(document.querySelector('#said').textContent || [])"), [])
    g.equal("fields have labels", page.js("[...document.querySelectorAll('input, textarea, select')].filter(e => e.labels.length === 0 && !e.ariaLabel).map(e => e.outerHTML)"), [])
    g.equal("buttons have names", page.js("[...document.querySelectorAll('button')].filter(e => !(e.textContent.trim() || e.ariaLabel)).map(e => e.outerHTML)"), [])
    g.equal("without motion where none is wanted", page.js("(() => { document.querySelector('.answer').classList.add('waiting'); return getComputedStyle(document.querySelector('.answer .body'), '::before').animationName; })()"), "none")
    page.js("document.querySelector('.answer').classList.remove('waiting')")
    # From the last settings of the header by Tab: to thoughts, code, table, fields of results.
    page.js("document.querySelector('#theme').focus()")
    seen, hidden = [], []
    for _ in range(60):
        page.press("Tab")
        page.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")  # what scrolls has scrolled
        what = page.js("(() => { const e = document.activeElement; return [e.tagName === 'SUMMARY' ? 'thoughts' : e.className === 'table' ? 'table' : e.tagName === 'PRE' ? 'code' : e.id || e.textContent, getComputedStyle(e).outlineStyle + getComputedStyle(e.closest('#composer') || e).boxShadow]; })()")
        seen.append(what[0])
        if what[1] in ("none", "nonenone"):
            hidden.append(what[0])
        if what[0] == "send":
            break
    wanted = ("Edit", "Copy", "thoughts", "code", "table", "Regenerate", "Verify", "Copy link", "Try again", "prompt", "send")
    places = [seen.index(name) if name in seen else -1 for name in wanted]
    g.check("Tab goes through the page in its order", -1 not in places and sorted(set(places)) == places, list(zip(wanted, places)))
    g.equal("what is in focus is seen", hidden, [])
    page.js("document.querySelector('#scroll').scrollTop = 0")
    page.wait("!document.querySelector('#latest').hidden")
    page.js("document.querySelector('#latest').focus()")
    page.press("Enter")
    page.wait("document.querySelector('#latest').hidden")
    g.equal("a button that goes leaves the focus to the message", page.js("document.activeElement.id"), "prompt")
    page.js("document.querySelector('summary').focus()")
    page.press("Enter")
    page.wait("document.querySelector('details').open", "Enter opens the thoughts")
    g.check("Enter opens the thoughts", True)
    hold = threading.Event()
    g.server.replies.append([event(content="On and on"), hold])
    send(page, "Long")
    page.wait(f"{BUSY} && {BODY} && {BODY}.textContent === 'On and on'")
    page.press("Escape")
    page.wait(f"!({BUSY})")
    g.check("Escape stops", page.js(f"{LAST}.querySelector('.figures').textContent").endswith("stopped"))
    hold.set()
    g.say(page, 5, "Weather", [event(calls=[(0, "a", "weather", "{}")])] + last("tool_calls"))
    for dark in (False, True):
        page.dark(dark)
        for top in (0, 500, 10**6):
            page.js(f"document.querySelector('#scroll').scrollTop = {top}")
            worst = page.js(CONTRAST)
            g.check(f"texts have a contrast of 4.5 or more, {'dark' if dark else 'light'}, at {top}", worst[0] >= 4.5, worst)
    g.clean(allowed=("500",))


GATES = {f.__name__: f for f in (markdown, markup, wraps, thoughts, tools, models, long, links, access)}

# Faults: a change of the page, and a check that notices it.
FAULTS = {
    "markdown": ((('el("span", {class: "address"}', 'el("a", {href: link[2]}'), "Markdown is shown: [the *page*]"),
                 (("begins = n <= 3 && !/\\w/.test(before) &&", "begins = n <= 3 &&"), "Markdown is shown: __init__"),
                 (('.replaceAll("\\\\|", "|");\n      at = after;', '.replaceAll("\\\\|", "|");\n      at++;'), "Markdown is shown: | A | B"),
                 (("if (cells.length > sides.length) cells.push(", "if (false) cells.push("), "Markdown is shown: | A | B"),
                 (("while (parent.children.length > same) parent", "while (parent.children.length > same + 1) parent"), "random texts are the same in pieces"),
                 (("undo(0);\n}", "}"), "Markdown is shown: __init__"),
                 (('inside.push(own);', 'inside.push(own.trim());'), "Markdown is shown: - a"),
                 (("blocks[0].kind === \"text\") putInline(item, blocks.shift()", "blocks[0].kind === \"text\") putInline(item, blocks.pop()"), "Markdown is shown: - a")),
    "markup": ((("thoughts.lastElementChild.textContent = split.thoughts;", "thoughts.lastElementChild.replaceChildren(new DOMParser().parseFromString(split.thoughts, 'text/html').body);"), "but is text"),
                (("if (end > plain) place().append(text.slice(plain, end));", "if (end > plain) place().append(text.includes('<img') ? el('img') : text.slice(plain, end));"), "markup of a model")),
    "wraps": (((".text, .replayed { overflow-wrap: break-word;", ".text, .replayed { word-break: break-all;"), "words are whole, 1280"),
              ((".text, .replayed { overflow-wrap: break-word;", ".text, .replayed { overflow-wrap: anywhere;"), "words are whole, 390"),
              ((".text, .replayed { overflow-wrap: break-word;", ".text, .replayed { "), "nothing is wider")),
    "thoughts": ((('el("details", {class: "thoughts"}', 'el("details", {class: "thoughts", open: true}'), "thoughts are folded"),
                 (("if (split.thoughts && !thoughts) parts", "if (thoughts) thoughts.remove();\n  if (split.thoughts) parts"), "they stay open"),
                 (("const text = {role: message.role, content: message.content};", "const text = {role: message.role, content: (message.thoughts || '') + message.content};"), "thoughts of earlier answers"),
                 (("answer.rate = event.timings.predicted_per_second ?? undefined;", "answer.rate = 1000 * answer.tokens / (performance.now() - start);"), "the rate is the server's"),
                 (("if (!answer.thoughts) return text === answer.content;", "return true;"), "an answer with thoughts is failed")),
    "tools": ((("if (tools.length > 0) body.tools = tools;", "body.tools = tools;"), "and are not sent"),
              (('call.arguments += said && said.arguments || "";', 'call.arguments = said && said.arguments || "";'), "its arguments have lines"),
              (("if (!isJson(text)) return text;", "if (isJson(text)) text = JSON.stringify(JSON.parse(text));\n  else return text;"), "its arguments have lines"),
              (("calls.every(isComplete)", "true"), "a call that is not whole"),
              (('.filter(m => m.role !== "assistant" || m.content !== "" || m.tool_calls);', ";"), "a call without a result")),
    "models": ((("find(m => m.id === settings.model) || models[0]", "find(() => true)"), "another model is selected"),
               (("several && answer.model ?", "answer.model ?"), "and its name is not repeated")),
    "long": ((('body.truncation = "auto";', ""), "the server is asked"),
             (("dropped: choice.bn.dropped_turns", "dropped: 0"), "what the server dropped"),
             (('&& i < upTo && m.role === "user");', "&& i < upTo);"), "what the server dropped")),
    "links": ((('const start = button("Verify", () => {', 'verify(panel, answer);\n    const start = button("Verify", () => {'), "nothing is replayed"),
              (("[\"Seed\", seed]", "[\"Seed\", asked.seed]"), "with all digits"),
              (("if (!/^[\\w-]{1,64}$/.test(id))", "if (id === '')"), "a link to ../models"),
              (('"#receipt=" + id, ', '"#" + id, '), "an answer has the link")),
    "access": ((("document.activeElement === find(\"#latest\")) focusPrompt();", "false) focusPrompt();"), "a button that goes"),
               ((', "aria-live": "off", hidden: true})};', ', "aria-live": "polite", hidden: true})};'), "nothing in the log"),
               (("*, ::before, ::after { animation", "* { animation"), "without motion"),
               ((":focus-visible { outline: 2px solid var(--blue);", ":focus-visible { outline: 0;"), "what is in focus")),
}

if __name__ == "__main__":
    NAME = sys.argv[1]
    with Browser() as BROWSER:
        SERVER = PlantedServer(sys.argv[2])
        try:
            GATES[NAME](Gate(BROWSER, SERVER))
        except Exception:  # pylint: disable=broad-except
            check(NAME + " runs to its end", False, traceback.format_exc())
        for FAULT, TITLE in FAULTS[NAME]:
            try:
                GATES[NAME](Gate(BROWSER, SERVER, FAULT))
                FOUND = "nothing"
            except Noticed as notice:
                FOUND = str(notice)
            except Exception:  # pylint: disable=broad-except
                FOUND = traceback.format_exc()
            check(f"a page with {FAULT[1].strip()[:60]!r} is noticed", FOUND.startswith(TITLE), FOUND)
