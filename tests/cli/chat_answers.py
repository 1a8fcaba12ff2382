# SPDX-License-Identifier: MIT
"""Usage: chat_answers.py PROGRAM

What the grammars of functions accept, and what answers are taken for, by PROGRAM (build/gcc/tests/chat/chat). Then answers at
random under these grammars: every call is one of a function, its arguments parse, and they are valid under the schema of the
function by another program.
"""
import json, random, subprocess, sys

import jsonschema

TEMPLATES = ["qwen3", "qwen3-no-think", "qwen35", "qwen35-no-think", "falcon3", "chatml", "llama3-chat", "bitnet", "instruct", "raw"]
PARAMETERS = [
    None,
    {},
    {"type": "object", "properties": {}},
    {"type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["C", "°F", ""]}}, "required": ["city"]},
    {"type": "object", "properties": {"n": {"type": "integer", "minimum": -3, "maximum": 40}, "x": {"type": "number"}, "on": {"type": "boolean"}},
     "required": ["n", "on"]},
    {"type": "object", "properties": {"when": {"type": "string", "format": "date"}, "code": {"type": "string", "pattern": "^[A-Z]{2}[0-9]+$"},
                                      "short": {"type": "string", "maxLength": 3}}, "required": ["when", "code", "short"]},
    {"type": "object", "properties": {"tree": {"$ref": "#/$defs/node"}, "name": {"$ref": "#/$defs/text"}}, "required": ["tree", "name"],
     "$defs": {"node": {"type": "object", "properties": {"v": {"type": "string"}, "left": {"$ref": "#/$defs/node"}}, "required": ["v"]},
               "text": {"type": "string"}}},
    {"type": "object", "properties": {"maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "mixed": {"enum": [1, "a", None]},
                                      "one": {"const": "x"}, "list": {"type": "array", "items": {"type": "string"}, "maxItems": 3}},
     "required": ["maybe", "mixed", "one", "list"]},
    {"type": "object", "properties": {"any": {}, "free": {"type": "object", "additionalProperties": {"type": "integer"}}}, "required": ["any"]},
]
FORMS = [{}, {"required": True}, {"required": True, "single": True}, {"single": True}, {"required": True, "only": "f1"}]


TOOLS = [{"type": "function", "function": {"name": "get", "parameters": {"type": "object", "properties": {
    "n": {"type": "integer", "maximum": 9}, "s": {"type": "string"}}, "required": ["n"]}}},
    {"type": "function", "function": {"name": "put", "parameters": {}}}]
PUT = '<tool_call>\n{"name": "put", "arguments": {}}\n</tool_call>'
END = "</function>\n</tool_call>"
ANY, REQUIRED, SINGLE, ONLY = {}, {"required": True}, {"required": True, "single": True}, {"required": True, "only": "put"}
SCHEMA, NONE = {"schema": '{"type": "array"}'}, {"none": True}


def get(n):
    return '<tool_call>\n{"name": "get", "arguments": {"n": ' + n + "}}\n</tool_call>"


def xml(n):
    return "<tool_call>\n<function=get>\n<parameter=n>\n" + n + "\n</parameter>\n"


# 0: an answer cannot begin so; 1: it can; 2: it is an answer.
GRAMMAR = [
    ('chatml', ANY, '', 2),
    ('chatml', ANY, 'a < b <tool_cal <<tool_<t', 2),
    ('chatml', ANY, 'a <<tool_call>\n{', 1),
    ('chatml', ANY, '<tool_call>x', 0),
    ('chatml', ANY, 'text\n' + get('9'), 2),
    ('chatml', ANY, get('9') + '\n' + PUT, 2),
    ('chatml', ANY, get('9') + ' text', 0),
    ('chatml', ANY, get('10'), 0),
    ('chatml', ANY, get('true'), 0),
    ('chatml', ANY, get('1, "x": 1'), 0),
    ('chatml', ANY, get('1, "s": "</tool_call>"'), 2),
    ('chatml', ANY, '<tool_call>\n{"name": "other', 0),
    ('chatml', REQUIRED, 'a', 0),
    ('chatml', REQUIRED, '<tool_call>', 1),
    ('chatml', REQUIRED, get('1') + '\n' + get('2'), 2),
    ('chatml', SINGLE, get('1'), 2),
    ('chatml', SINGLE, get('1') + '\n', 0),
    ('chatml', ONLY, PUT, 2),
    ('chatml', ONLY, '<tool_call>\n{"name": "g', 0),
    ('qwen3', REQUIRED, PUT, 2),
    ('qwen3', REQUIRED, '<think>\nI </thin <tool_call>\n</think>\n\n' + PUT, 2),
    ('qwen3', REQUIRED, '<think>\nI </think>no', 0),
    ('qwen3-no-think', REQUIRED, '<think>', 0),
    ('qwen3', SCHEMA, '<think>a</think>\n\n[1]', 2),
    ('qwen3', SCHEMA, '[1]', 2),
    ('qwen3', SCHEMA, '[a', 0),
    ('qwen35', NONE, 'a\n</think>\n\nb<tool_call>', 2),
    ('qwen35', NONE, 'a\n', 1),
    ('qwen35', REQUIRED, 'a</think>' + xml('3') + END, 2),
    ('qwen35', REQUIRED, xml('3') + END, 1),
    ('qwen35-no-think', ANY, 't\n\n' + xml('3') + END + '\n' + xml('4') + END, 2),
    ('qwen35-no-think', ANY, xml('10') + END, 0),
    ('qwen35-no-think', ANY, xml('3') + '<parameter=s>\na <b> </parameter>\n\n\n</parameter>\n' + END, 2),
    ('qwen35-no-think', ANY, xml('3') + '<parameter=s>\n\n</parameter>\n' + END, 2),
    ('qwen35-no-think', ANY, xml('3') + '<parameter=s>\na\n</parameter>x', 0),
    ('qwen35-no-think', ANY, '<tool_call>\n<function=get>\n<parameter=s>', 0),
    ('falcon3', ANY, '<tool_call>\n[\n  {"name": "put", "arguments": {}},\n  {"name": "get", "arguments": {"n": 1}}\n]\n</tool_call>', 2),
    ('falcon3', SINGLE, '<tool_call>\n[{"name": "put", "arguments": {}},', 0),
]
# T: text, H: thoughts, C: a call.
ANSWERS = [
    ('chatml', '\nhi\n', 'T(\nhi\n)'),
    ('chatml', '<think>x</think>', 'T(<think>x</think>)'),
    ('chatml', 'hi\n\n' + get('1') + '\n' + PUT + '\n', 'T(hi)C(get {"n":1})C(put {})'),
    ('chatml', get('1.0, "s": "a b\\n</tool_call> \\""') + 'x', 'C(get {"n":1.0,"s":"a b\\n</tool_call> \\""})T(x)'),
    ('chatml', 'a\n<tool_call>{no}</tool_call>\n' + PUT, 'T(a\n<tool_call>{no}</tool_call>)C(put {})'),
    ('chatml', 'a<tool_call>\n{"name": "get"', 'T(a<tool_call>\n{"name": "get")'),
    ('chatml', '<tool_call>{"name":"f"}</tool_call>', 'T(<tool_call>{"name":"f"}</tool_call>)'),
    ('chatml', '<tool_call>{"name":"f","arguments":"{}"}</tool_call>', 'T(<tool_call>{"name":"f","arguments":"{}"}</tool_call>)'),
    ('chatml', 'a <tool_\n<tool', 'T(a <tool_\n<tool)'),
    ('qwen3', '<think>\nhm </t\n</think>\n\nyes\n', 'H(hm </t)T(yes\n)'),
    ('qwen3', '<think>\n\n</think>\n\n' + PUT, 'C(put {})'),
    ('qwen3', '<think>\nhm ' + PUT + '\n', 'H(hm ' + PUT + '\n)'),
    ('qwen3', '<thin', 'T(<thin)'),
    ('qwen3', '\n<think>', 'T(\n<think>)'),
    ('qwen3-no-think', '<think>a', 'T(<think>a)'),
    ('qwen35', '\nhm\n</think>\n\nyes', 'H(hm)T(yes)'),
    ('qwen35', 'hm</thi', 'H(hm</thi)'),
    ('qwen35-no-think', 'a\n\n' + xml('1') + '<parameter=s>\n</tool_call>\n"</parameter>\n\n</parameter>\n' + END + '\n' + xml('2') + END, 'T(a)C(get {"n":1,"s":"</tool_call>\\n\\"</parameter>\\n"})C(get {"n":2})'),
    ('qwen35-no-think', xml('true') + '<parameter=s>\n12\n</parameter>\n' + END, 'C(get {"n":true,"s":"12"})'),
    ('qwen35-no-think', xml('[1, {}]') + '<parameter=x>\nno json\n</parameter>' + END, 'C(get {"n":[1,{}],"x":"no json"})'),
    ('qwen35-no-think', '<tool_call><function=put></function></tool_call>', 'C(put {})'),
    ('qwen35-no-think', '\n' + xml('1'), 'T(\n' + xml('1') + ')'),
    ('falcon3', 'ok\n<tool_call>\n[{"name": "a", "arguments": {}}, {"name":"b","arguments":{"x": null}}]\n</tool_call>', 'T(ok)C(a {})C(b {"x":null})'),
    ('falcon3', '<tool_call>\n[]\n</tool_call>', 'T(<tool_call>\n[]\n</tool_call>)'),
]


def ask(requests):
    lines = subprocess.run([sys.argv[1]], input="".join(json.dumps(c) + "\n" for c in requests), stdout=subprocess.PIPE,
                           check=True, text=True).stdout.splitlines()
    assert len(lines) == len(requests), f"{len(lines)} answers to {len(requests)} requests"
    return [json.loads(line) for line in lines]


def shown(parts):
    return "".join("THC"[p[0]] + "(" + (p[1] + " " if p[0] == 2 else "") + p[2] + ")" for p in parts)


def fixed():
    replies = ask([{"template": t, "form": f, "tools": [] if f in (SCHEMA, NONE) else TOOLS, "prefix": x} for t, f, x, _ in GRAMMAR])
    for row, reply in zip(GRAMMAR, replies):
        assert reply.get("match") == row[3], f"{row}: {reply}"
    replies = ask([{"template": t, "tools": TOOLS, "answer": x} for t, x, _ in ANSWERS])
    for row, reply in zip(ANSWERS, replies):
        assert "error" not in reply and shown(reply["parts"]) == row[2], f"{row}: {reply}"
    reply = ask([{"template": "chatml", "answer": PUT}])[0]
    assert shown(reply["parts"]) == f"T({PUT})", "without functions there are no calls"


def check(request, reply):
    form, tools = request["form"], {t["function"]["name"]: t["function"] for t in request["tools"]}
    parts = [p for p in reply["parts"] if p[0] != 1]
    calls = [p for p in parts if p[0] == 2]
    for _, name, text in calls:
        arguments = json.loads(text)
        assert isinstance(arguments, dict), "arguments are an object"
        assert name in tools, "a function"
        assert form.get("only") in (None, name), "the function that was asked for"
        jsonschema.validate(arguments, tools[name].get("parameters") or {"type": "object", "maxProperties": 0})
        assert json.dumps(arguments, separators=(",", ":")).count(" ") == text.count(" ") or "\\u" in text, "no blanks"
    if form.get("required"):
        assert calls and len(calls) == len(parts), "nothing but calls"
    if form.get("single"):
        assert len(calls) <= 1, "one call"
    assert all("<tool_call>" not in p[2] for p in parts if p[0] == 0), "a call is not text"
    return len(calls), sum(len(p[2]) > 2 for p in calls), any(p[0] == 1 for p in reply["parts"])


def main():
    fixed()
    r = random.Random(1)
    asked = []
    for template in TEMPLATES:
        for form in FORMS:
            for _ in range(12):
                tools = [{"type": "function", "function": {"name": f"f{i}"}} for i in range(r.randrange(2, 4))]
                for t in tools:
                    parameters = r.choice(PARAMETERS)
                    if parameters is not None:
                        t["function"]["parameters"] = parameters
                asked.append({"template": template, "tools": tools, "form": form, "seed": r.randrange(2**32)})
    answers = calls = filled = thoughts = 0
    for request, reply in zip(asked, ask(asked)):
        assert "error" not in reply, f"{request}\n{reply}"
        if "parts" not in reply:
            continue # it was given up
        try:
            got = check(request, reply)
        except Exception as e:
            sys.exit(f"{json.dumps(request)}\n{reply['text']}\n{reply['parts']}\n{e}")
        answers, calls, filled, thoughts = answers + 1, calls + got[0], filled + got[1], thoughts + got[2]
    print(f"{answers} of {len(asked)} answers, {calls} calls, {filled} with arguments, {thoughts} with thoughts")
    assert answers > len(asked) / 2 and filled > 300 and thoughts > 20, "there is enough to check"


main()
