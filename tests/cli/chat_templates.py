# SPDX-License-Identifier: MIT
"""Usage: chat_templates.py PROGRAM [FOLDER]

Conversations at random, rendered by PROGRAM (build/gcc/tests/chat/chat) and by this file, which states again, by itself, what
the chat templates of Qwen3, Qwen3.5 and Falcon3 write. With FOLDER, the models' own templates in it (qwen3.jinja,
qwen35.jinja, falcon3.jinja: chat_template of tokenizer_config.json) are run by jinja2 instead.
"""
import json, os, random, subprocess, sys

TEMPLATES = ["qwen3", "qwen3-no-think", "qwen35", "qwen35-no-think", "falcon3", "chatml"]
WORDS = ["", "\n", "hello", " two\nlines ", "\n\nlate", "end\n", "ünïcode 你好", 'quo"te\\', "<tool_call>", "<|im_end|>", "{}", "tab\t",
         "<tool_response>", "<tool_response>\nfake\n</tool_response>"]
VALUES = [0, 1, -7, 2.5, True, False, None, "text", "é\n\"", [], {}, [1, "a", None], {"k": [{"n": 1.5}], "é": {}}, 10**15]


def text(r):
    return "".join(r.choice(WORDS) for _ in range(r.randrange(3)))


def tool(r, i):
    properties = {r.choice("abc") + str(k): {"type": "string", "description": text(r), "enum": [text(r), "x"]}
                  for k in range(r.randrange(3))}
    return {"type": "function", "function": {"name": f"f{i}", "description": text(r),
                                             "parameters": {"type": "object", "properties": properties, "required": []}}}


def answer(r, template, calls):
    m = {"role": "assistant", "content": text(r)}
    if r.random() < 0.3:
        m["content"] = r.choice(["<think>\nhm\n</think>\n\n", "<think></think>", "a</think>", "x<think>y</think>z</think>\n"]) + text(r)
    if r.random() < 0.4:
        m["reasoning_content"] = r.choice(["", "\n", "so\nso", "\n why \n", "two </think> ends"])
    if calls:
        m["tool_calls"] = [{"name": f"f{i}", "arguments": {r.choice("xyz") + str(k): r.choice(VALUES) for k in range(r.randrange(4))}}
                           for i in range(r.randrange(3))]
    return m


def conversation(r, template):
    tools = [tool(r, i) for i in range(r.randrange(4))]
    messages = [{"role": "system", "content": text(r)}] if r.random() < 0.5 else []
    messages.append({"role": "user", "content": "q" + text(r)})
    for _ in range(r.randrange(5)):
        # The template of Falcon3 drops calls and results when no functions are given, and nothing else does.
        messages.append(answer(r, template, tools or template != "falcon3"))
        if r.random() < 0.5 and (tools or template != "falcon3"):
            messages += [{"role": "tool", "content": text(r)} for _ in range(r.randrange(1, 4))]
        else:
            messages.append({"role": "user", "content": text(r)})
    return {"template": template, "messages": messages, "tools": tools}


# ---- what the templates write ----

QWEN3 = ("# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures "
         "within <tools></tools> XML tags:\n<tools>%s\n</tools>\n\nFor each function call, return a json object with function name and "
         "arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "
         "<args-json-object>}\n</tool_call>")
QWEN35 = ("# Tools\n\nYou have access to the following functions:\n\n<tools>%s\n</tools>\n\nIf you choose to call a function ONLY "
          "reply in the following format with NO suffix:\n\n<tool_call>\n<function=example_function_name>\n<parameter="
          "example_parameter_1>\nvalue_1\n</parameter>\n<parameter=example_parameter_2>\nThis is the value for the second parameter\n"
          "that can span\nmultiple lines\n</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n- Function calls MUST "
          "follow the specified format: an inner <function=...></function> block must be nested within <tool_call></tool_call> XML "
          "tags\n- Required parameters MUST be specified\n- You may provide optional reasoning for your function call in natural "
          "language BEFORE the function call, but NOT after\n- If there is no function call available, answer the question like "
          "normal with your current knowledge and do not tell the user about function calls\n</IMPORTANT>")
FALCON3 = ("You are a Falcon assistant skilled in function calling. You are helpful, respectful, and concise.\n\n# Tools\n\nYou have "
           "access to the following functions. You MUST use them to answer questions when needed. For each function call, you MUST "
           "return a JSON object inside <tool_call></tool_call> tags.\n\n<tools>%s</tools>\n\n# Output Format\n\nYour response MUST "
           "follow this format when making function calls:\n<tool_call>\n[\n  {\"name\": \"function_name\", \"arguments\": {\"arg1\": "
           "\"value1\", \"arg2\": \"value2\"}},\n  {\"name\": \"another_function\", \"arguments\": {\"arg\": \"value\"}}\n]\n</tool_call>\n"
           "If no function calls are needed, respond normally without the tool_call tags.\n")


def dump(value, **how):
    return json.dumps(value, ensure_ascii=False, **how)


def turn(role, content):
    return f"<|im_start|>{role}\n{content}<|im_end|>\n"


def is_question(message, trim):
    content = message["content"].strip() if trim else message["content"]
    return message["role"] == "user" and not (content.startswith("<tool_response>") and content.endswith("</tool_response>"))


def parameter(name, value):
    shown = dump(value) if isinstance(value, (dict, list)) else str(value)
    return f"<parameter={name}>\n{shown}\n</parameter>\n"


def qwen_answer(message, later, family):
    content, thoughts = message["content"], message.get("reasoning_content")
    if family == "qwen35":
        content = content.strip()
    if thoughts is None:
        thoughts = ""
        if "</think>" in content and family != "chatml":
            first, last = content.split("</think>")[0], content.split("</think>")[-1]
            thoughts, content = first.rstrip("\n").split("<think>")[-1].lstrip("\n"), last.lstrip("\n")
    out = content
    if family == "qwen35" and later:
        out = f"<think>\n{thoughts.strip()}\n</think>\n\n{content}"
    elif family == "qwen3" and later and thoughts:
        out = "<think>\n" + thoughts.strip("\n") + "\n</think>\n\n" + content.lstrip("\n")
    for i, call in enumerate(message.get("tool_calls", [])):
        if family == "qwen35":
            inner = f"<function={call['name']}>\n" + "".join(parameter(*a) for a in call["arguments"].items()) + "</function>"
            between = "\n" if i else "\n\n" if content.strip() else ""
        else:
            inner = '{"name": "%s", "arguments": %s}' % (call["name"], dump(call["arguments"]))
            between = "\n" if i or content else ""
        out += f"{between}<tool_call>\n{inner}\n</tool_call>"
    return turn("assistant", out)


def qwen(c):
    family, messages = c["template"].replace("-no-think", ""), c["messages"]
    trim = family == "qwen35"
    system = messages[0]["content"] if messages[0]["role"] == "system" else None
    if system is not None and trim:
        system = system.strip()
    out = ""
    if c["tools"]:
        lines = "".join("\n" + dump(t) for t in c["tools"])
        if trim:
            out = turn("system", QWEN35 % lines + ("\n\n" + system if system else ""))
        else:
            out = turn("system", ("" if system is None else system + "\n\n") + QWEN3 % lines)
    elif system is not None:
        out = turn("system", system)
    last = max([i for i, m in enumerate(messages) if is_question(m, trim)], default=len(messages) - 1)
    for i, m in enumerate(messages):
        content = m["content"].strip() if trim else m["content"]
        if m["role"] == "user":
            out += turn("user", content)
        elif m["role"] == "assistant":
            out += qwen_answer(m, i > last, family)
        elif m["role"] == "tool":
            out += "" if messages[i - 1]["role"] == "tool" else "<|im_start|>user"
            out += f"\n<tool_response>\n{content}\n</tool_response>"
            out += "" if i + 1 < len(messages) and messages[i + 1]["role"] == "tool" else "<|im_end|>\n"
    ends = {"qwen35": "<think>\n", "qwen3-no-think": "<think>\n\n</think>\n\n", "qwen35-no-think": "<think>\n\n</think>\n\n"}
    return out + "<|im_start|>assistant\n" + ends.get(c["template"], "")


def falcon3(c):
    messages, out = c["messages"], ""
    if messages[0]["role"] == "system":
        out = messages[0]["content"]
        messages = messages[1:]
        out = "<|system|>\n" + (out + FALCON3 % dump(c["tools"], indent=2) if c["tools"] else out + "\n")
    elif c["tools"]:
        out = "<|system|>\n" + FALCON3 % dump(c["tools"], indent=2)
    for m in messages:
        if m["role"] == "user":
            out += f"<|user|>\n{m['content']}\n"
        elif m["role"] == "tool":
            out += f"<|assistant|>\n<tool_response>\n{m['content']}\n</tool_response>\n"
        else:
            out += "<|assistant|>\n" + m["content"] if m["content"] or not c["tools"] else ""
            if m.get("tool_calls"):
                out += "\n<tool_call>\n" + dump(m["tool_calls"], indent=2) + "\n</tool_call>"
            out += "<|endoftext|>\n"
    return out + "<|assistant|>\n"


def by_jinja(folder):
    import jinja2.sandbox
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = dump
    loaded = {n: env.from_string(open(os.path.join(folder, n + ".jinja")).read()) for n in ("qwen3", "qwen35", "falcon3")}

    def render(c):
        name = c["template"].replace("-no-think", "")
        return loaded[name].render(messages=c["messages"], tools=c["tools"], add_generation_prompt=True,
                                   enable_thinking="no-think" not in c["template"], eos_token="<|endoftext|>")
    return render


def main():
    program, n = sys.argv[1], 600
    templates, oracle = TEMPLATES, lambda c: falcon3(c) if c["template"] == "falcon3" else qwen(c)
    if len(sys.argv) > 2:
        templates, oracle = [t for t in TEMPLATES if t != "chatml"], by_jinja(sys.argv[2])
    r = random.Random(1)
    asked = [conversation(r, t) for t in templates for _ in range(n)]
    lines = subprocess.run([program], input="".join(json.dumps(c) + "\n" for c in asked), stdout=subprocess.PIPE,
                           check=True, text=True).stdout.splitlines()
    assert len(lines) == len(asked), f"{len(lines)} answers to {len(asked)} conversations"
    for c, line in zip(asked, lines):
        got = json.loads(line).get("text", line)
        want = oracle(c)
        if got != want:
            at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
            sys.exit(f"{json.dumps(c, indent=1)}\n{c['template']} differs at {at}:\n got {got[max(0, at - 60):at + 60]!r}\nwant "
                     f"{want[max(0, at - 60):at + 60]!r}")
    print(f"{len(asked)} conversations")


main()
