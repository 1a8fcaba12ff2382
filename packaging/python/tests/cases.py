# SPDX-License-Identifier: MIT
"""What bn-run generates, for comparison: python3 cases.py BN-RUN MODEL >expected.json"""
import json
import subprocess
import sys

SCHEMA = '{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"],"additionalProperties":false}'
# Arguments of bn-run, the method, its first argument, and options.
CASES = [
    (["The LORD", "-n", "16"], "generate", "The LORD", {"max_tokens": 16}),
    (["The LORD", "-n", "24", "--temp", "0.9", "--top-k", "40", "--top-p", "0.95", "--min-p", "0.01", "--repeat-penalty", "1.1",
      "--presence-penalty", "0.5", "--frequency-penalty", "0.25", "--seed", "7", "--logit-bias", "44=-2.5"], "generate", "The LORD",
     {"max_tokens": 24, "temperature": 0.9, "top_k": 40, "top_p": 0.95, "min_p": 0.01, "repeat_penalty": 1.1,
      "presence_penalty": 0.5, "frequency_penalty": 0.25, "seed": 7, "bias": {44: -2.5}}),
    (["ROMEO:", "-n", "64", "--stop", "\n", "--stop", "king"], "generate", "ROMEO:", {"max_tokens": 64, "stop": ["\n", "king"]}),
    (["ROMEO:", "-n", "64", "--stop-id", "330"], "generate", "ROMEO:", {"max_tokens": 64, "stop_tokens": [330]}),
    (["A person:", "-n", "64", "--json-schema", SCHEMA], "generate", "A person:", {"max_tokens": 64, "json_schema": json.loads(SCHEMA)}),
    (["Say:", "-n", "8", "--grammar", 'root ::= "yes" | "no"'], "generate", "Say:", {"max_tokens": 8, "grammar": 'root ::= "yes" | "no"'}),
    (["Who is there?", "-n", "24", "--template", "instruct", "--system", "Be short."], "chat",
     [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Who is there?"}], {"max_tokens": 24, "template": "instruct"}),
]

if __name__ == "__main__":
    json.dump([json.loads(subprocess.run([sys.argv[1], "-q", "--json", "-m", sys.argv[2], *arguments], check=True,
                                         stdout=subprocess.PIPE).stdout) for arguments, *_ in CASES], sys.stdout)
