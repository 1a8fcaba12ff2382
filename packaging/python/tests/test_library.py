# SPDX-License-Identifier: MIT
"""The declarations of the package are those of bn.h."""
import os
import pathlib
import re

import pytest
from bn import _library as lib

HEADER = pathlib.Path(os.environ.get("BN_HEADER") or pathlib.Path(__file__).parents[3] / "engine/bn.h")
if not HEADER.exists():
    pytest.skip("no bn.h", allow_module_level=True)
TEXT = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
SCALARS = {"int32_t": "c_int", "uint32_t": "c_uint", "uint64_t": "c_ulong", "size_t": "c_ulong", "double": "c_double", "bool": "c_bool",
           "unsigned": "c_uint", "int": "c_int", "uint8_t": "c_ubyte", "float": "c_float", "void": None}


def enumerators(name):
    body, n = re.search(rf"enum {name} \{{(.*?)\}}", TEXT, re.S).group(1), -1
    for item in re.findall(r"(\w+)(?:\s*=\s*(\d+))?", body):
        n = int(item[1]) if item[1] else n + 1
        yield item[0], n


@pytest.mark.parametrize("enum, name, prefix", [
    (lib.Status, "bn_status", "BN_(ERR_)?"), (lib.Setting, "bn_setting", "BN_SET_"), (lib.Figure, "bn_model_figure", "BN_MODEL_"),
    (lib.Pooling, "bn_pooling", "BN_POOLING_"), (lib.Logits, "bn_logits", "BN_LOGITS_"), (lib.Repack, "bn_repack", "BN_REPACK_")])
def test_enumerators(enum, name, prefix):
    want = {re.sub(f"^{prefix}", "", key): value for key, value in enumerators(name)}
    want.pop("STATUS_COUNT", None)
    assert {key: int(value) for key, value in enum.__members__.items()} == want


def kind(declaration):
    """A type of C as ctypes names it: a pointer to a scalar, any other pointer, an enumeration or a scalar."""
    words = re.sub(r"\bconst\b", "", declaration).split()
    text = " ".join(words)
    stars = text.count("*")
    base = re.sub(r"[*\s].*", "", text)
    if stars == 1 and base == "char":
        return "c_char_p"
    if stars:
        return "pointer"
    return SCALARS.get(base, "c_int" if base.startswith("bn_") and not base.endswith("_fn") else "pointer")


def made(type_):
    if type_ is None:
        return None
    name = type_.__name__
    return name if name.startswith("c_") and name != "c_void_p" else "pointer"


DECLARED = re.findall(r"^(?:BN_MUST_CHECK )?((?:const )?\w+ \**)(bn_\w+)\(([^;]*?)\);", TEXT, re.S | re.M)


def test_functions():
    seen = 0
    for result, name, arguments in DECLARED:
        f = lib.library.__dict__.get(name)
        if f is None:
            continue
        seen += 1
        want = [kind(a) for a in arguments.split(",")] if arguments.strip() != "void" else []
        got = [made(t) for t in f.argtypes or ()]
        # An address of bytes may be declared as one, or as any pointer.
        assert len(got) == len(want), name
        for i, (g, w) in enumerate(zip(got, want)):
            assert g == w or {g, w} == {"c_char_p", "pointer"}, f"{name}, argument {i}"
        assert made(f.restype) == kind(result) or {made(f.restype), kind(result)} == {"c_char_p", "pointer"}, name
    assert seen == len([name for name in lib.library.__dict__ if name.startswith("bn_")]) > 40


@pytest.mark.parametrize("structure, name", [
    (lib.ErrorStruct, "bn_error"), (lib.ModelOptions, "bn_model_options"), (lib.SessionOptions, "bn_session_options"),
    (lib.EmbedOptions, "bn_embed_options"), (lib.MessageStruct, "bn_message"), (lib.Candidate, "bn_candidate")])
def test_structures(structure, name):
    body = re.search(rf"typedef struct {name} \{{(.*?)\}} {name};", TEXT, re.S).group(1)
    want = []
    for member in body.split(";"):
        if member.strip():
            declared, key, length = re.match(r"(.*?)(\w+)(?:\[(\d+)\])?$", member.strip(), re.S).groups()
            want.append((key, f"c_char_Array_{length}" if length else kind(declared)))
    for (key, type_, *_), (wanted, what) in zip(structure._fields_, want):
        assert key == wanted and (type_.__name__ == what or made(type_) == what or {made(type_), what} == {"c_char_p", "pointer"}), key
    assert len(structure._fields_) == len(want)
