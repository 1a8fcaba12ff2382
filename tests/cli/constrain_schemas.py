#!/usr/bin/env python3
# Schemas for tests/cli/constrain.sh. "ask SEEDS" writes requests of bn-run --batch-file, "check ANSWERS SEEDS" reads the
# answers: each complete one must be JSON that is valid under its schema, by python3-jsonschema; each other one must say
# that it was cut. "plant" edits one complete answer, so that it is not valid any more.
import datetime
import json
import sys
import warnings

warnings.simplefilter("ignore")
import jsonschema

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "mail": {"type": "string", "format": "email"},
        "born": {"type": "string", "format": "date"},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
SCHEMAS = [
    {"type": "object"},
    {"type": "array", "maxItems": 3},
    {"type": "string", "maxLength": 8},
    {"type": "integer", "minimum": -37, "maximum": 1205},
    {"type": "integer", "exclusiveMinimum": 99, "exclusiveMaximum": 10000},
    {"type": "integer", "maximum": -3},
    {"type": "number", "minimum": 0, "maximum": 1},
    {"type": "number", "exclusiveMinimum": -2, "exclusiveMaximum": 3},
    {"type": "number", "maximum": -1},
    {"type": "number", "exclusiveMinimum": 0},
    {"type": ["string", "null"], "maxLength": 5},
    {"type": ["integer", "boolean", "array"], "maxItems": 2, "items": {"type": "boolean"}},
    PERSON,
    {"type": "array", "items": PERSON, "minItems": 1, "maxItems": 2},
    {"enum": ["red", "green", 7, None, True, {"a": [1, 2]}, "qu\"ote\\ \u00e9\n"]},
    {"const": {"b": 1.5, "a": [None]}},
    {"type": "string", "enum": ["x", 1, "y"]},
    {"type": "string", "pattern": "^[A-Z][a-z]{2,5}( [0-9]{1,3})?$"},
    {"type": "string", "pattern": "^(\\d{3}-\\d{4}|none)$"},
    {"type": "string", "pattern": "^a\\.b\"c\\\\[^x\"]?\\s\\w$"},
    {"type": "string", "pattern": "^[^a-z\"]{3}.{2}$"},
    {"type": "string", "pattern": "^\\D\\W\\S$|^\\t$"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "time"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "uuid"},
    {"type": "string", "format": "email"},
    {"type": "string", "format": "ipv4"},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"enum": ["a"]}], "minItems": 1, "items": False},
    {"type": "array", "prefixItems": [{"type": "boolean"}], "items": {"type": "null"}, "minItems": 2, "maxItems": 4},
    {"type": "array", "items": {"enum": [1, 2]}, "minItems": 3, "maxItems": 3},
    {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
    {"oneOf": [{"type": "integer"}, {"type": "array", "maxItems": 0}]},
    {
        "oneOf": [
            {"type": "object", "properties": {"k": {"const": "a"}, "x": {"type": "integer"}}, "required": ["k", "x"]},
            {"type": "object", "properties": {"k": {"const": "b"}, "y": {"type": "null"}}, "required": ["k", "y"]},
        ]
    },
    {"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
               {"properties": {"b": {"type": "boolean"}}}], "type": "object"},
    {"$defs": {"n": {"type": "integer", "minimum": 1, "maximum": 3}}, "type": "object",
     "properties": {"n": {"$ref": "#/$defs/n"}, "m": {"$ref": "#/properties/n"}}, "required": ["n", "m"]},
    {"definitions": {"tree": {"type": "object", "properties": {
        "v": {"type": "boolean"}, "next": {"anyOf": [{"$ref": "#/definitions/tree"}, {"type": "null"}]}},
        "required": ["v", "next"]}}, "$ref": "#/definitions/tree"},
    {"type": "object", "additionalProperties": {"type": "boolean"}},
    {"type": "object", "properties": {"ab": {"const": 1}, "abc": {"const": 2}, "x\"y": {"const": 3}},
     "additionalProperties": {"const": 4}},
    {"type": "object", "properties": {"a": True, "b": False, "c": {}}, "required": ["c"]},
    {"type": "object", "properties": {"a": False, "e\"": False}, "additionalProperties": {"const": 4}},
    {"type": "object", "properties": {"o": {"type": "object", "properties": {}, "additionalProperties": False}},
     "required": ["o", "extra"], "additionalProperties": {"type": "null"}},
    {"title": "all optional", "type": "object", "properties": {k: {"type": "boolean"} for k in "pqrs"}},
]


FORMATS = jsonschema.FormatChecker(formats=["date", "email", "ipv4", "uuid"])


# The package checks times only when further packages are there.
@FORMATS.checks("date-time", raises=ValueError)
def is_time(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).tzinfo is not None


@FORMATS.checks("time", raises=ValueError)
def is_time_of_day(text):
    return is_time("2000-01-01T" + text)


def seeds(text):
    return range(1, int(text) + 1)


def ask(count):
    for schema in SCHEMAS:
        for seed in seeds(count):
            print(json.dumps({"prompt": "ROMEO:", "json_schema": schema, "seed": seed,
                              "temperature": [0.6, 1.0, 1.6][seed % 3], "n_predict": 20 if seed % 5 == 0 else 150}))


def check(path, count):
    lines = [json.loads(line) for line in open(path)]
    asked = [schema for schema in SCHEMAS for _ in seeds(count)]
    bad, complete = 0, [0] * len(SCHEMAS)
    if len(lines) != len(asked):
        sys.exit(f"{len(lines)} answers, {len(asked)} requests")
    for i, (line, schema) in enumerate(zip(lines, asked)):
        if line["stop"] not in ("grammar", "end"):
            bad += line["stop"] != "length"
            continue
        complete[i // int(count)] += 1
        try:
            jsonschema.validate(json.loads(line["text"]), schema, cls=jsonschema.Draft202012Validator,
                                format_checker=FORMATS)
        except Exception as error:
            bad += 1
            print(json.dumps(schema)[:200], repr(line["text"])[:200], str(error).splitlines()[0][:200])
    for schema, n in zip(SCHEMAS, complete):
        if n == 0:
            bad += 1
            print("no answer was complete:", json.dumps(schema)[:200])
    print(f"{sum(complete)} of {len(lines)} answers are complete, {bad} are wrong")
    sys.exit(bad > 0)


def plant(path):
    lines = open(path).read().splitlines()
    for i, line in enumerate(lines):
        answer = json.loads(line)
        if answer["stop"] == "grammar" and answer["text"].startswith("{"):
            answer["text"] = answer["text"][:-1] + ']'
            lines[i] = json.dumps(answer)
            break
    print("\n".join(lines))


if sys.argv[1] == "ask":
    ask(sys.argv[2])
elif sys.argv[1] == "check":
    check(sys.argv[2], sys.argv[3])
else:
    plant(sys.argv[2])
