#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# The corpus of bad files: GGUF files that are wrong in one way each, and some that are odd but good, as DIR/NAME.gguf.
# DIR/cases.tsv says what must come of them: name, status, exit code, byte offset that the error must name ("-": none),
# who refuses it (container: the reader of files; model: only the loader, which knows what values mean), description.
# Files are built here from the description of the format; nothing of the engine is used.
import os
import sys

U8, I8, U16, I16, U32, I32, FLOAT, BOOL, STRING, ARRAY, UINT64, INT64, DOUBLE = range(13)  # values of keys
WIDTH = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8]
F32, F16, Q8_0, I2_S = 0, 1, 8, 36  # tensors
OK, FORMAT, LIMIT, UNSUPPORTED = ("ok", 0), ("format", 4), ("limit", 4), ("unsupported", 9)
U64_MAX, U32_MAX = (1 << 64) - 1, (1 << 32) - 1
DENORMAL, NAN, INF, MINUS_1 = 1, 0x7FC00000, 0x7F800000, 0xBF800000


def le(value, width):
    return (value & (1 << 8 * width) - 1).to_bytes(width, "little")


def text(value):
    return le(len(value), 8) + value


def value_bytes(kind, value):
    return text(value) if kind == STRING else le(value, WIDTH[kind])


def key(name, kind, value, n=None):
    """A key; a list is an array of that kind, which announces n elements."""
    head = text(name.encode())
    if not isinstance(value, list):
        return head + le(kind, 4) + value_bytes(kind, value)
    count = len(value) if n is None else n
    return head + le(ARRAY, 4) + le(kind, 4) + le(count, 8) + b"".join(value_bytes(kind, v) for v in value)


def tensor(name, kind, ne, offset):
    """A tensor's description."""
    return text(name.encode()) + le(len(ne), 4) + b"".join(le(n, 8) for n in ne) + le(kind, 4) + le(offset, 8)


def tensor_bytes(kind, ne):
    n = 1
    for d in ne:
        n *= d
    return {F32: 4 * n, F16: 2 * n, Q8_0: n // 32 * 34, I2_S: n // 4 + 32}[kind]


def padded(n):
    return (n + 31) // 32 * 32


def header(n_tensors, n_keys):
    return b"GGUF" + le(3, 4) + le(n_tensors, 8) + le(n_keys, 8)


def build(keys, tensors, gap=0, reverse=False):
    """keys: (name, kind, value[, n]); tensors: name, kind, ne, data. Returns the bytes, and where each thing is."""
    at, out = {}, header(len(tensors), len(keys))
    for name, kind, value, *n in keys:
        kind_at = len(out) + 8 + len(name)
        at[name] = {"start": len(out), "text": len(out) + 8, "type": kind_at, "element_type": kind_at + 4,
                    "count": kind_at + 8, "value": kind_at + (16 if isinstance(value, list) else 4)}
        out += key(name, kind, value, *n)
    offsets, end = {}, 0
    for name, kind, ne, _ in reversed(tensors) if reverse else tensors:
        offsets[name] = end + gap
        end = offsets[name] + padded(tensor_bytes(kind, ne))
    for name, kind, ne, _ in tensors:
        dims_at = len(out) + 8 + len(name)
        at[name] = {"start": len(out), "text": len(out) + 8, "n_dims": dims_at, "dim0": dims_at + 4,
                    "dim1": dims_at + 12, "type": dims_at + 4 + 8 * len(ne), "offset": dims_at + 8 + 8 * len(ne)}
        out += tensor(name, kind, ne, offsets[name])
    data = bytearray(end)
    for name, kind, ne, content in tensors:
        n = tensor_bytes(kind, ne)
        data[offsets[name]:offsets[name] + n] = (content + bytes(n))[:n]
    start = padded(len(out))
    for name in offsets:
        at[name]["data"] = start + offsets[name]
    return out.ljust(start, b"\0") + bytes(data), at


def poke(file, at, value, width):
    return file[:at] + le(value, width) + file[at + width:]


# ---- other files, and headers that end early: name, status, offset, bytes, description ----

RAW = [
    ("empty", FORMAT, 0, b"", "no bytes at all"),
    ("1byte", FORMAT, 0, b"G", "one byte"),
    ("magic_only", FORMAT, 4, b"GGUF", "nothing after the magic"),
    ("bad_magic", FORMAT, 0, b"XGUF\3" + bytes(19), "another magic"),
    ("magic_lower", FORMAT, 0, b"gguf\3" + bytes(19), "magic in lower case"),
    ("magic_swapped", FORMAT, 0, b"FUGG\0\0\0\3" + bytes(16), "magic backwards"),
    ("magic_ggjt", FORMAT, 0, b"tjgg\3" + bytes(11), "the format before GGUF"),
    ("zip_header", FORMAT, 0, b"PK\3\4\24\0\0\0\10" + bytes(13), "a zip archive"),
    ("gzip_header", FORMAT, 0, b"\x1F\x8B\10\0\0\0\0\0\0\3", "a gzip file"),
    ("html_page", FORMAT, 0, b"\n <!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n",
     "a web page saved instead of the model"),
    ("html_page_upper", FORMAT, 0, b"<HTML><BODY>404</BODY></HTML>", "a web page in upper case"),
    ("json_reply", FORMAT, 0, b'{"error":"Repository not found"}', "a server's error message"),
    ("lfs_pointer", FORMAT, 0, b"version https://git-lfs.github.com/spec/v1\noid sha256:" b"4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n", "a Git LFS pointer"),
    ("text_file", FORMAT, 0, b"This is not a model.\n", "a text file"),
    ("version_0", FORMAT, 4, b"GGUF" + bytes(20), "version 0"),
    ("version_1", UNSUPPORTED, 4, b"GGUF\1" + bytes(11), "version 1, with 32-bit counts"),
    ("version_4", UNSUPPORTED, 4, b"GGUF\4" + bytes(19), "a later version"),
    ("version_swapped", UNSUPPORTED, 4, b"GGUF\0\0\0\3" + bytes(16), "big endian"),
    ("version_2e32m1", UNSUPPORTED, 4, b"GGUF\377\377\377\377" + bytes(16), "version 4294967295"),
    ("header_truncated_8", FORMAT, 8, b"GGUF\3\0\0\0", "ends after the version"),
    ("header_truncated_12", FORMAT, 8, b"GGUF\3" + bytes(7), "ends in the number of tensors"),
    ("header_truncated_16", FORMAT, 16, b"GGUF\3" + bytes(11), "ends after that"),
    ("header_truncated_20", FORMAT, 16, b"GGUF\3" + bytes(15), "ends in the number of keys"),
    ("header_truncated_23", FORMAT, 16, b"GGUF\3" + bytes(18), "lacks the last byte of the header"),
    ("n_kv_1_no_data", FORMAT, 16, b"GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1" + bytes(7), "one key announced, none there"),
    ("n_tensors_1_no_data", FORMAT, 8, b"GGUF\3\0\0\0\1" + bytes(15), "one tensor announced, none there"),
    ("n_kv_2e32_small_file", FORMAT, 16, b"GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0",
     "24 bytes that announce 2^32 keys"),
]
# ---- one field of a valid container overwritten: name, status, object or None, field or offset, width, value,
# description[, the error names the start of the object] ----

# Values that depend on the length of the file: one key, tensor, byte more than there is room for.
REMAINING_KEYS, REMAINING_TENSORS, REMAINING_BYTES = "14", "33", "0"
POKES = [
    ("n_tensors_2e63", FORMAT, None, 8, 8, 1 << 63, "2^63 tensors"),
    ("n_tensors_2e64m1", FORMAT, None, 8, 8, U64_MAX, "2^64 - 1 tensors"),
    ("n_tensors_div_wrap", FORMAT, None, 8, 8, U64_MAX // 120 + 1, "times a structure it wraps"),
    ("n_tensors_2e64_div_64", FORMAT, None, 8, 8, U64_MAX // 64, "times 64 it nearly wraps"),
    ("n_tensors_remaining_plus_1", FORMAT, None, 8, 8, REMAINING_TENSORS, "one more than fits"),
    ("n_tensors_one_more", FORMAT, None, 8, 8, 4, "one more than there are", True),
    ("n_kv_2e63", FORMAT, None, 16, 8, 1 << 63, "2^63 keys"),
    ("n_kv_2e64m1", FORMAT, None, 16, 8, U64_MAX, "2^64 - 1 keys"),
    ("n_kv_div_wrap", FORMAT, None, 16, 8, U64_MAX // 64 + 1, "times a structure it wraps"),
    ("n_kv_remaining_plus_1", FORMAT, None, 16, 8, REMAINING_KEYS, "one more than fits"),
    ("key_len_2e64m1", FORMAT, "t.u32", "start", 8, U64_MAX, "length of a key 2^64 - 1"),
    ("key_len_2e63", FORMAT, "t.u32", "start", 8, 1 << 63, "length of a key 2^63"),
    ("key_len_wrap", FORMAT, "t.u32", "start", 8, U64_MAX - 7, "position plus length wraps"),
    ("key_len_remaining_plus_1", FORMAT, "t.u32", "start", 8, REMAINING_BYTES, "one too many"),
    ("key_empty", FORMAT, "t.u32", "start", 8, 0, "a key without a name"),
    ("key_nul", FORMAT, "t.u32", "text", 1, 0, "NUL in a key", True),
    ("key_ctrl_esc", FORMAT, "t.u32", "text", 1, 0x1B, "an escape character in a key", True),
    ("key_c1", FORMAT, "t.u32", "text", 2, 0x9BC2, "U+009B, which terminals obey, in a key", True),
    ("key_bad_utf8", FORMAT, "t.u32", "text", 1, 0xFF, "a key that is not UTF-8", True),
    ("key_overlong_utf8", FORMAT, "t.u32", "text", 2, 0x80C0, "NUL as overlong UTF-8", True),
    ("key_duplicate_of_other", FORMAT, "t.string", "text", 8, 0x73657479622E74,
     "a NUL at the end of what is else another key", True),
    ("val_len_2e64m1", FORMAT, "t.string", "value", 8, U64_MAX, "length of a string 2^64 - 1"),
    ("val_len_2e63", FORMAT, "t.string", "value", 8, 1 << 63, "length of a string 2^63"),
    ("val_len_wrap", FORMAT, "t.string", "value", 8, U64_MAX - 7, "position plus length wraps"),
    ("val_len_remaining_plus_1", FORMAT, "t.string", "value", 8, REMAINING_BYTES, "one byte too many"),
    ("element_len_2e64m1", FORMAT, "t.strings", "value", 8, U64_MAX, "a string of an array"),
    ("element_len_2e31", FORMAT, "t.strings", "value", 8, 1 << 31, "over 2^31 bytes of token"),
    ("type_13", FORMAT, "t.u32", "type", 4, 13, "an unknown value type"),
    ("type_2e32m1", FORMAT, "t.u32", "type", 4, U32_MAX, "value type 2^32 - 1"),
    ("bool_2", FORMAT, "t.bool", "value", 1, 2, "a bool of 2"),
    ("array_of_bool_7", FORMAT, "t.bools", "value", 1, 7, "a bool of 7 in an array"),
    ("array_elem_unknown", FORMAT, "t.bytes", "element_type", 4, 99, "unknown element type"),
    ("array_elem_array", LIMIT, "t.bytes", "element_type", 4, 9, "an array of arrays"),
    ("array_n_2e60_u8", FORMAT, "t.bytes", "count", 8, 1 << 60, "2^60 bytes"),
    ("array_n_2e60_string", FORMAT, "t.strings", "count", 8, 1 << 60, "2^60 strings"),
    ("array_n_2e61_string", FORMAT, "t.strings", "count", 8, 1 << 61, "times 8 it wraps to 0"),
    ("array_n_2e64m1", FORMAT, "t.bytes", "count", 8, U64_MAX, "2^64 - 1 elements"),
    ("array_n_remaining_plus_1", FORMAT, "t.bytes", "count", 8, REMAINING_BYTES, "one too many"),
    ("name_len_2e64m1", FORMAT, "mat", "start", 8, U64_MAX, "length of a name 2^64 - 1"),
    ("name_empty", FORMAT, "mat", "start", 8, 0, "a tensor without a name"),
    ("name_duplicate", FORMAT, "mat", "text", 3, 0x636576, "two tensors of one name", True),
    ("name_nul", FORMAT, "mat", "text", 1, 0, "NUL in a name", True),
    ("name_ctrl_esc", FORMAT, "mat", "text", 1, 0x1B, "an escape character in a name", True),
    ("name_newline", FORMAT, "mat", "text", 1, 10, "a new line in a name", True),
    ("name_bad_utf8", FORMAT, "mat", "text", 1, 0x80, "a name that is not UTF-8", True),
    ("ndims_0", FORMAT, "mat", "n_dims", 4, 0, "no dimensions"),
    ("ndims_5", FORMAT, "mat", "n_dims", 4, 5, "five dimensions"),
    ("ndims_9", FORMAT, "mat", "n_dims", 4, 9, "nine dimensions"),
    ("ndims_1000000", FORMAT, "mat", "n_dims", 4, 1000000, "a million dimensions"),
    ("ndims_2e32m1", FORMAT, "mat", "n_dims", 4, U32_MAX, "2^32 - 1 dimensions"),
    ("dim_0", FORMAT, "mat", "dim0", 8, 0, "a dimension of 0"),
    ("dim1_0", FORMAT, "mat", "dim1", 8, 0, "a second dimension of 0"),
    ("dim_2e63", LIMIT, "mat", "dim0", 8, 1 << 63, "a dimension of 2^63"),
    ("dim_2e31", LIMIT, "mat", "dim1", 8, 1 << 31, "a dimension of 2^31"),
    ("dim_2e42p1", LIMIT, "mat", "dim1", 8, (1 << 42) + 1, "a dimension of 2^42 + 1"),
    ("dim_int64max", LIMIT, "mat", "dim0", 8, (1 << 63) - 1, "a dimension of 2^63 - 1"),
    ("dim_huge_data", FORMAT, "mat", "dim1", 8, 1 << 30, "a tensor far larger than the file", True),
    ("row_not_block_multiple", FORMAT, "mat", "dim0", 8, 100, "I2_S rows of 100"),
    ("type_4", UNSUPPORTED, "mat", "type", 4, 4, "a type that was removed"),
    ("type_5", UNSUPPORTED, "mat", "type", 4, 5, "a type that was removed"),
    ("type_31", UNSUPPORTED, "mat", "type", 4, 31, "a type that was removed"),
    ("type_32", UNSUPPORTED, "mat", "type", 4, 32, "a type that was removed"),
    ("type_33", UNSUPPORTED, "mat", "type", 4, 33, "a type that was removed"),
    ("type_37", UNSUPPORTED, "mat", "type", 4, 37, "a type that is never in files"),
    ("type_10", UNSUPPORTED, "mat", "type", 4, 10, "Q2_K, which is not read"),
    ("type_tl1", UNSUPPORTED, "mat", "type", 4, 38, "TL1"),
    ("type_tl2", UNSUPPORTED, "mat", "type", 4, 39, "TL2"),
    ("type_134", UNSUPPORTED, "mat", "type", 4, 134, "a type of another fork"),
    ("type_255", UNSUPPORTED, "mat", "type", 4, 255, "an unknown type"),
    ("type_2e31", UNSUPPORTED, "mat", "type", 4, 1 << 31, "type 2^31"),
    ("type_tq2_half_block", FORMAT, "mat", "type", 4, 35, "TQ2_0 rows of 128"),
    ("offset_unaligned", FORMAT, "mat", "offset", 8, 33, "data at an odd offset"),
    ("offset_beyond", FORMAT, "end", "offset", 8, 1 << 40, "data after the end of the file", True),
    ("offset_plus_size_wraps", FORMAT, "end", "offset", 8, U64_MAX - 31, "end of the data wraps", True),
    ("overlap", FORMAT, "end", "offset", 8, 0, "two tensors at the same place"),
    ("overlap_partly", UNSUPPORTED, "end", "offset", 8, 96, "a tensor begins in another's tail"),
    ("i2s_room_too_small", UNSUPPORTED, "end", "offset", 8, 64, "less room than I2_S needs"),
    ("alignment_unknown_type", FORMAT, "general.file_type", "type", 4, 200, "type 200"),
]# Errors in how tensors lie to each other name the one before.
NAMES_BEFORE = {"overlap": "vec", "overlap_partly": "mat", "i2s_room_too_small": "mat"}


def container():
    keys = [("general.architecture", STRING, b"bitnet-b1.58"), ("t.u32", U32, 7), ("t.bool", BOOL, 1),
            ("t.string", STRING, b"some text"), ("t.bytes", U8, [1, 2, 3, 4, 5]),
            ("t.strings", STRING, [b"one", b"two", b"three"]), ("t.bools", BOOL, [1, 0]),
            ("general.file_type", U32, 40)]
    codes = b"\x15" * 96  # 0 1 1 1
    return build(keys, [("vec", F32, [8], codes), ("mat", I2_S, [128, 2], codes), ("end", F32, [8], codes)])


def pokes():
    valid, at = container()
    for name, status, thing, field, width, value, what, *at_start in POKES:
        place = at[thing][field] if thing else field
        if isinstance(value, str):
            value = (len(valid) - place) // int(value) + 1 if value != "0" else len(valid) - place
        offset = at[NAMES_BEFORE[name]]["start"] if name in NAMES_BEFORE else place
        if at_start and name not in NAMES_BEFORE:
            offset = at[thing]["start"] if thing else None
        yield name, status, offset, "container", poke(valid, place, value, width), what


# ---- containers that are built wrong: name, status, keys, tensors, bytes after the head, place, description ----

def alignment(value, kind=U32):
    return key("general.alignment", kind, value)


def nested(levels):
    one = le(ARRAY, 4) + le(1, 8)
    return [text(b"nested") + le(ARRAY, 4) + le(ARRAY, 4) + le(1, 8) + one * levels + le(U8, 4) + le(1, 8) + b"\1"]


def typed(kind, file_type=None):
    keys = [key("general.architecture", STRING, b"llama")]
    if file_type:
        keys.append(key("general.file_type", U32, file_type))
    return keys, [tensor("w", kind, [256, 1], 0)]


def sums(n, step):
    return [], [tensor("w%d" % i, F32, [1 << 30, 1 << 30], i * step) for i in range(n)]


# Four dimensions within the limits whose product wraps; 4 x (2^30 - 1) x (2^30 + 1) floats are 2^64 - 16 bytes.
WRAPS = [(1 << 31) - 128, (1 << 31) - 1, (1 << 31) - 1, (1 << 31) - 1]
HUGE = [4, (1 << 30) - 1, (1 << 30) + 1]
TWICE = [key("same", U32, 1), key("same", U32, 1)]
ONE = [tensor("w", F32, [8], 0)]
BUILT = [
    ("key_257", LIMIT, [key("k" * 257, U32, 1)], [], 0, None, "a key of 257 bytes"),
    ("key_511", LIMIT, [key("k" * 511, U32, 1)], [], 0, None, "a key of 511 bytes"),
    ("name_128", LIMIT, [], [tensor("n" * 128, F32, [1], 0)], 32, None, "a tensor's name of 128 bytes"),
    ("key_duplicate", FORMAT, [key("same", U32, 1), key("same", U32, 2)], [], 0, None, "a key twice"),
    ("key_duplicate_same", FORMAT, TWICE, [], 0, None, "a key twice with the same value"),
    ("array_nested_8", LIMIT, nested(8), [], 0, None, "8 levels of arrays"),
    ("array_nested_10000", LIMIT, nested(10000), [], 0, None, "10000 levels of arrays, 120 KB"),
    ("array_nested_2mb", LIMIT, nested(170000), [], 0, None, "170000 levels of arrays, 2 MB"),
    ("array_short_string", FORMAT, [key("short", STRING, [b"one"], 4) + b"\xFF" * 40], [], 0, None,
     "four strings announced, one there"),
    ("val_len_1mib_plus_1", LIMIT, [key("tokenizer.ggml.tokens", STRING, [b"x" * ((1 << 20) + 1)])], [], 0, None,
     "a token of 1 MiB and a byte, 1 MB"),
    ("alignment_0", FORMAT, [alignment(0)], [], 0, None, "alignment 0"),
    ("alignment_1", FORMAT, [alignment(1)], [], 0, None, "alignment 1"),
    ("alignment_3", FORMAT, [alignment(3)], [], 0, None, "alignment 3"),
    ("alignment_4", FORMAT, [alignment(4)], [], 0, None, "alignment 4"),
    ("alignment_48", FORMAT, [alignment(48)], [], 0, None, "alignment 48"),
    ("alignment_131072", LIMIT, [alignment(131072)], [], 0, None, "alignment 131072"),
    ("alignment_2e30", LIMIT, [alignment(1 << 30)], [], 0, None, "alignment 2^30"),
    ("alignment_2e31", LIMIT, [alignment(1 << 31)], [], 0, None, "alignment 2^31"),
    ("alignment_2e32m1", FORMAT, [alignment(U32_MAX)], [], 0, None, "alignment 2^32 - 1"),
    ("alignment_int32", FORMAT, [alignment(32, I32)], [], 0, None, "alignment as int32"),
    ("alignment_uint64", FORMAT, [alignment(32, UINT64)], [], 0, None, "alignment as uint64"),
    ("alignment_string", FORMAT, [alignment(b"32", STRING)], [], 0, None, "alignment as a string"),
    ("alignment_duplicate", FORMAT, [alignment(32), alignment(64)], [], 0, None, "alignment twice"),
    ("dims_2e64m16_bytes", FORMAT, [], [tensor("w", F32, HUGE, 0)], 32, "info", "a tensor of 2^64 - 16 bytes"),
    ("dims_product_wraps_f32", FORMAT, [], [tensor("w", F32, WRAPS, 0)], 32, "type", "the elements wrap"),
    ("dims_product_wraps_i2s", UNSUPPORTED, [], [tensor("w", I2_S, WRAPS, 0)], 32, "type",
     "the elements of an I2_S tensor wrap, in no BitNet file"),
    ("sum_wraps", FORMAT, *sums(5, 1 << 62), 32, "info", "sizes whose sum wraps"),
    ("sum_wraps_same_offset", FORMAT, *sums(4, 0), 32, "info", "sizes whose sum wraps, at one place"),
    ("type_36_llama", UNSUPPORTED, *typed(36), 96, "type", "type 36 in a file that is not BitNet"),
    ("type_36_llama_q8", UNSUPPORTED, *typed(36, 7), 96, "type", "type 36 in a file of Q8_0"),
    ("type_39_mxfp4", UNSUPPORTED, *typed(39), 136, "type", "type 39 in a file that is not BitNet"),
    ("data_missing", FORMAT, [], ONE, 0, "info", "nothing after the head"),
    ("data_truncated_by_1", FORMAT, [], ONE, 31, "info", "the last byte of the data is missing"),
]


def built():
    for name, status, keys, tensors, n_data, place, what in BUILT:
        head = header(len(tensors), len(keys)) + b"".join(keys)
        # Before the description are header and keys; in it name, dimensions, type, offset.
        offset = len(head) if place == "info" else len(head + b"".join(tensors)) - 12 if place == "type" else None
        head += b"".join(tensors)
        yield name, status, offset, "container", head.ljust(padded(len(head)), b"\0") + bytes(n_data), what


# ---- a small model, one layer of width 128, with one thing changed ----

N_VOCAB = 266
TOKENS, SCORES, TYPES, MERGES = ("tokenizer.ggml." + name for name in ("tokens", "scores", "token_type", "merges"))
EMPTY = (U32, [])


def alphabet():
    """The 256 byte tokens, by the order of their ids: first the bytes that stand for themselves."""
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    other = [b for b in range(256) if b not in plain]
    return [chr(b).encode() for b in plain] + [chr(256 + i).encode() for i in range(len(other))]


def model_keys(vocab):
    numbers = [("vocab_size", N_VOCAB if vocab else 4), ("context_length", 64), ("embedding_length", 128),
               ("block_count", 1), ("feed_forward_length", 128), ("rope.dimension_count", 64),
               ("attention.head_count", 2), ("attention.head_count_kv", 1)]
    keys = {"general.architecture": (STRING, b"bitnet-b1.58"), "general.name": (STRING, b"bad input")}
    keys.update({"." + name: (U32, value) for name, value in numbers})
    keys.update({".attention.layer_norm_rms_epsilon": (FLOAT, 0x3727C5AC), ".rope.freq_base": (FLOAT, 0x461C4000),
                 "general.file_type": (U32, 40)})
    if vocab:
        merges = [b"a b", b"c d", b"e f", b"ab cd"]
        control = [b"<|%s|>" % name for name in (b"begin_of_text", b"end_of_text", b"start_header_id",
                                                 b"end_header_id", b"eot_id", b"pad")]
        tokens = alphabet() + [merge.replace(b" ", b"") for merge in merges] + control
        keys.update({"tokenizer.ggml.model": (STRING, b"gpt2"), "tokenizer.ggml.pre": (STRING, b"llama-bpe"),
                     TOKENS: (STRING, tokens), SCORES: (FLOAT, [0] * N_VOCAB), TYPES: (I32, [1] * 260 + [3] * 6),
                     MERGES: (STRING, merges)})
        keys.update({"tokenizer.ggml.%s_token_id" % name: (U32, i)
                     for name, i in (("bos", 260), ("eos", 261), ("padding", 261))})
    return keys


def model_tensors(vocab):
    codes, ones = b"\x15" * 4096 + le(0x3F800000, 4), le(0x3F800000, 4) * 128
    shapes = {"attn_norm": 0, "attn_q": 128, "attn_k": 64, "attn_v": 64, "attn_sub_norm": 0, "attn_output": 128,
              "ffn_norm": 0, "ffn_gate": 128, "ffn_up": 128, "ffn_sub_norm": 0, "ffn_down": 128}
    tensors = {"token_embd.weight": (F16, [128, N_VOCAB if vocab else 4], b"\x00\x3C\x00\xB8" * 64 * N_VOCAB)}
    for name, rows in shapes.items():
        content = codes[:rows * 32] + codes[4096:]
        tensors["blk.0.%s.weight" % name] = (I2_S, [128, rows], content) if rows else (F32, [128], ones)
    tensors["output_norm.weight"] = (F32, [128], ones)
    return tensors


def changed_array(kind, values, change):
    """change: element by index; n: their number, the list begins again after its end; kind: of the elements."""
    kind, n = change.get("kind", kind), change.get("n", len(values))
    values = [values[i % len(values)] for i in range(n)]
    if kind != STRING and isinstance(values[0] if values else 0, bytes):
        values = [0] * n
    for i in change:
        if isinstance(i, int):
            values[i] = change[i]
    return kind, values


def model(keys=None, tensors=None, array=None, vocab=False, gap=0, reverse=False):
    """keys and tensors replace those of that name or add one; None drops it."""
    all_keys, all_tensors = model_keys(vocab), model_tensors(vocab)
    all_keys.update(keys or {})
    if array:
        all_keys[array[0]] = changed_array(*all_keys[array[0]], array[1])
    for name, value in (tensors or {}).items():
        kind, ne, content = all_tensors.get(name, (F32, [128], b""))
        if value is not None:
            value = (kind if value[0] is None else value[0], [d for d in value[1:] if d != 1] or ne, content)
        all_tensors[name] = value
    full = {name: "bitnet-b1.58" + name if name[0] == "." else name for name in all_keys}
    return build([(full[name], *value) for name, value in all_keys.items() if value],
                 [(name, *value) for name, value in all_tensors.items() if value], gap, reverse)


# Each number absent, 0, over its limit, of the wrong type; the status is that of its absence.
HPARAMS = [
    ("vocab_size", ".vocab_size", OK),  # the embedding says it too
    ("context_length", ".context_length", FORMAT),
    ("embedding_length", ".embedding_length", FORMAT),
    ("block_count", ".block_count", FORMAT),
    ("feed_forward_length", ".feed_forward_length", FORMAT),
    ("rope_dimension_count", ".rope.dimension_count", OK),
    ("head_count", ".attention.head_count", FORMAT),
    ("head_count_kv", ".attention.head_count_kv", FORMAT),  # then it is head_count, and the shapes differ
]
WAYS = [
    ("absent", None, None, "is absent"),
    ("0", (U32, 0), FORMAT, "is 0"),
    ("2e32m1", (U32, U32_MAX), LIMIT, "is 2^32 - 1"),
    ("2e63", (UINT64, 1 << 63), FORMAT, "is 2^63"),
    ("minus_1", (I32, U32_MAX), FORMAT, "is -1"),
    ("string", (STRING, b"x"), FORMAT, "is a string"),
    ("float", (FLOAT, 0x43000000), FORMAT, "is a float"),
    ("array", EMPTY, FORMAT, "is an empty array"),
]


def hparams():
    for name, full, absent in HPARAMS:
        for way, value, status, what in WAYS:
            file, _ = model(keys={full: value})
            yield name + "_" + way, status or absent, None, "model", file, name + " " + what


def blocks_of_32(file, at):
    """8 bytes of codes, then 1.0 as binary16."""
    start = at["blk.0.attn_q.weight"]["data"]
    return file[:start] + (b"\x18" * 8 + b"\x00\x3C") * 512 + file[start + 5120:]


# name, status, description, what is changed: arguments of model(); poke: tensor, offset in its data, value, width;
# after: a function of the bytes
CASES = [
    # good files
    ("good_bare", OK, "the model that all of these are made from", {}),
    ("trailing_garbage", OK, "bytes after the last tensor", {"after": lambda f, at: f + b"?" * 1000}),
    ("trailing_byte", OK, "one byte after the last tensor", {"after": lambda f, at: f + b"?" * 1}),
    ("gap_unreferenced", OK, "gaps between the tensors", {"gap": 32}),
    ("out_of_order", OK, "data in the opposite order of the descriptions", {"reverse": True}),
    ("array_empty", OK, "an empty array under an unknown key", {"keys": {"extra.array": EMPTY}}),
    ("val_bad_utf8", OK, "a value that is not UTF-8", {"keys": {"extra.text": (STRING, b"\xFF\xFE\x80")}}),
    ("extra_tensor", OK, "a tensor that the graph does not know", {"tensors": {"blk.0.unknown.weight": (F32, 128)}}),
    ("name_64", OK, "a tensor's name of 64 bytes",
     {"tensors": {"0123456789012345678901234567890123456789012345678901234567890123": (F32, 128)}}),
    ("i2s_scale_denormal", OK, "a scale that is tiny but positive",
     {"poke": ("blk.0.attn_q.weight", 4096, DENORMAL, 4)}),
    # keys
    ("counts_zero", FORMAT, "no keys and no tensors", {"after": lambda f, at: f[:8] + bytes(16)}),
    ("architecture_missing", FORMAT, "no architecture", {"keys": {"general.architecture": None}}),
    ("architecture_unknown", UNSUPPORTED, "an architecture that nobody knows",
     {"keys": {"general.architecture": (STRING, b"bitnet-9")}}),
    ("architecture_empty", UNSUPPORTED, "an architecture without a name",
     {"keys": {"general.architecture": (STRING, b"")}}),
    ("architecture_escape", UNSUPPORTED, "a terminal's command as architecture",
     {"keys": {"general.architecture": (STRING, b"\x1B[2Jx")}}),
    ("architecture_u32", FORMAT, "the architecture is a number", {"keys": {"general.architecture": (U32, 1)}}),
    ("block_count_513", LIMIT, "513 layers", {"keys": {".block_count": (U32, 513)}}),
    ("block_count_100000", LIMIT, "100000 layers", {"keys": {".block_count": (U32, 100000)}}),
    ("block_count_2", FORMAT, "a layer without tensors", {"keys": {".block_count": (U32, 2)}}),
    ("context_length_2e31", LIMIT, "a context of 2^31", {"keys": {".context_length": (U32, 0x80000000)}}),
    ("head_count_3", FORMAT, "heads that do not divide the width", {"keys": {".attention.head_count": (U32, 3)}}),
    ("head_kv_not_divisor", FORMAT, "KV heads that do not divide the heads",
     {"keys": {".attention.head_count_kv": (U32, 3)}}),
    ("head_kv_more_than_heads", FORMAT, "more KV heads than heads", {"keys": {".attention.head_count_kv": (U32, 4)}}),
    ("rope_dimension_66", FORMAT, "more to rotate than a head has", {"keys": {".rope.dimension_count": (U32, 66)}}),
    ("rope_dimension_63", FORMAT, "an odd number of elements to rotate",
     {"keys": {".rope.dimension_count": (U32, 63)}}),
    ("embedding_length_256", FORMAT, "another width than the tensors have",
     {"keys": {".embedding_length": (U32, 256)}}),
    ("feed_forward_length_256", FORMAT, "another width than the tensors have",
     {"keys": {".feed_forward_length": (U32, 256)}}),
    ("vocab_mismatch_embd", FORMAT, "another vocabulary than the embedding has", {"keys": {".vocab_size": (U32, 5)}}),
    ("vocab_size_2000000", LIMIT, "two million tokens", {"keys": {".vocab_size": (U32, 2000000)}}),
    ("rope_freq_0", FORMAT, "rope base 0", {"keys": {".rope.freq_base": (FLOAT, 0)}}),
    ("rope_freq_negative", FORMAT, "rope base -1", {"keys": {".rope.freq_base": (FLOAT, MINUS_1)}}),
    ("rope_freq_nan", FORMAT, "rope base NaN", {"keys": {".rope.freq_base": (FLOAT, NAN)}}),
    ("rope_freq_inf", FORMAT, "rope base infinite", {"keys": {".rope.freq_base": (FLOAT, INF)}}),
    ("eps_0", FORMAT, "epsilon 0", {"keys": {".attention.layer_norm_rms_epsilon": (FLOAT, 0)}}),
    ("eps_negative", FORMAT, "epsilon -1", {"keys": {".attention.layer_norm_rms_epsilon": (FLOAT, MINUS_1)}}),
    ("eps_nan", FORMAT, "epsilon NaN", {"keys": {".attention.layer_norm_rms_epsilon": (FLOAT, NAN)}}),
    ("eps_absent", FORMAT, "no epsilon", {"keys": {".attention.layer_norm_rms_epsilon": None}}),
    ("eps_u32", FORMAT, "epsilon as an integer", {"keys": {".attention.layer_norm_rms_epsilon": (U32, 1)}}),
    # tensors
    ("tensor_missing_embd", FORMAT, "no embedding", {"tensors": {"token_embd.weight": None}}),
    ("tensor_missing_q", FORMAT, "no query matrix", {"tensors": {"blk.0.attn_q.weight": None}}),
    ("tensor_missing_sub_norm", FORMAT, "no sub norm", {"tensors": {"blk.0.attn_sub_norm.weight": None}}),
    ("tensor_missing_norm", FORMAT, "no output norm", {"tensors": {"output_norm.weight": None}}),
    ("tensor_shape_swapped", FORMAT, "a key matrix with the query's shape",
     {"tensors": {"blk.0.attn_k.weight": (None, 128, 128)}}),
    ("tensor_shape_norm", FORMAT, "a norm of half the width", {"tensors": {"blk.0.attn_norm.weight": (None, 64, 1)}}),
    ("tensor_shape_norm_2d", FORMAT, "a norm of two rows", {"tensors": {"output_norm.weight": (None, 128, 2)}}),
    ("tensor_shape_embd", FORMAT, "an embedding with a row missing",
     {"tensors": {"token_embd.weight": (None, 128, 3)}}),
    ("embd_as_i2s", UNSUPPORTED, "the embedding as ternary weights", {"tensors": {"token_embd.weight": (I2_S,)}}),
    ("norm_as_i2s", UNSUPPORTED, "a norm as ternary weights", {"tensors": {"output_norm.weight": (I2_S,)}}),
    ("norm_as_q8_0", UNSUPPORTED, "a norm as Q8_0", {"tensors": {"output_norm.weight": (Q8_0,)}}),
    ("linear_as_q8_0", UNSUPPORTED, "a ternary matrix as Q8_0", {"tensors": {"blk.0.attn_q.weight": (Q8_0,)}}),
    ("tensor_bias", UNSUPPORTED, "a bias, which the graph does not have",
     {"tensors": {"blk.0.attn_q.bias": (F32, 128)}}),
    # data
    ("data_cut_1", FORMAT, "the last byte is missing", {"after": lambda f, at: f[:-1], "level": "container"}),
    ("data_cut_1000", FORMAT, "the end is missing", {"after": lambda f, at: f[:-1000], "level": "container"}),
    ("i2s_scale_nan", FORMAT, "a scale that is NaN", {"poke": ("blk.0.attn_q.weight", 4096, NAN, 4)}),
    ("i2s_scale_inf", FORMAT, "an infinite scale", {"poke": ("blk.0.attn_q.weight", 4096, INF, 4)}),
    ("i2s_scale_0", FORMAT, "scale 0", {"poke": ("blk.0.attn_q.weight", 4096, 0, 4)}),
    ("i2s_scale_negative", FORMAT, "scale -1", {"poke": ("blk.0.ffn_down.weight", 4096, MINUS_1, 4)}),
    ("i2s_code3", FORMAT, "the code that stands for nothing", {"poke": ("blk.0.attn_q.weight", 100, 0xFF, 1)}),
    ("i2s_code3_last", FORMAT, "the same at the very end", {"poke": ("blk.0.ffn_down.weight", 4095, 0x57, 1)}),
    ("i2s_blocks_of_32", FORMAT, "type 36 with a scale in every block of 32 weights (BitNet32-F16)",
     {"gap": 992, "after": blocks_of_32}),
    ("norm_nan", FORMAT, "NaN in a norm", {"poke": ("blk.0.attn_norm.weight", 64, NAN, 4)}),
    ("norm_inf", FORMAT, "infinity in a norm", {"poke": ("output_norm.weight", 508, INF, 4)}),
    # the vocabulary
    ("good_vocab", OK, "the same model with a vocabulary", {"vocab": True}),
    ("token_empty", OK, "a token without text", {"array": (TOKENS, {5: b""}), "vocab": True}),
    ("token_duplicate", OK, "two tokens of one text", {"array": (TOKENS, {5: b"a"}), "vocab": True}),
    ("token_not_utf8", OK, "a token that is not UTF-8", {"array": (TOKENS, {5: b"\xFF\xFE"}), "vocab": True}),
    ("token_escape", OK, "a terminal's command as token", {"array": (TOKENS, {5: b"\x1B[2J"}), "vocab": True}),
    ("vocab_mismatch_tokens_more", FORMAT, "one token more than embeddings",
     {"array": (TOKENS, {"n": N_VOCAB + 1}), "vocab": True}),
    ("vocab_mismatch_tokens_less", FORMAT, "one token less than embeddings",
     {"array": (TOKENS, {"n": N_VOCAB - 1}), "vocab": True}),
    ("vocab_tokens_0", FORMAT, "an empty list of tokens", {"array": (TOKENS, {"n": 0}), "vocab": True}),
    ("vocab_mismatch_scores_1", FORMAT, "one score", {"array": (SCORES, {"n": 1}), "vocab": True}),
    ("vocab_mismatch_scores_more", FORMAT, "one score too many",
     {"array": (SCORES, {"n": N_VOCAB + 1}), "vocab": True}),
    ("vocab_mismatch_types_0", FORMAT, "no token types", {"array": (TYPES, {"n": 0}), "vocab": True}),
    ("vocab_mismatch_types_less", FORMAT, "one token type too few",
     {"array": (TYPES, {"n": N_VOCAB - 1}), "vocab": True}),
    ("vocab_scores_u8", FORMAT, "scores as bytes", {"array": (SCORES, {"kind": U8}), "vocab": True}),
    ("vocab_scores_f64", FORMAT, "scores as doubles", {"array": (SCORES, {"kind": DOUBLE}), "vocab": True}),
    ("vocab_types_u8", FORMAT, "token types as bytes", {"array": (TYPES, {"kind": U8}), "vocab": True}),
    ("vocab_merges_u32", FORMAT, "merges as numbers", {"array": (MERGES, {"kind": U32}), "vocab": True}),
    ("vocab_tokens_u32", FORMAT, "tokens as one number",
     {"keys": {"tokenizer.ggml.tokens": (U32, 7)}, "vocab": True}),
    ("vocab_tokens_numbers", FORMAT, "tokens as an array of numbers",
     {"keys": {"tokenizer.ggml.tokens": EMPTY}, "vocab": True}),
    ("vocab_merges_absent", FORMAT, "no merges", {"keys": {"tokenizer.ggml.merges": None}, "vocab": True}),
    ("vocab_model_unknown", UNSUPPORTED, "another kind of vocabulary",
     {"keys": {"tokenizer.ggml.model": (STRING, b"bert")}, "vocab": True}),
    ("vocab_model_u32", FORMAT, "the kind of vocabulary as a number",
     {"keys": {"tokenizer.ggml.model": (U32, 1)}, "vocab": True}),
    ("vocab_pre_unknown", UNSUPPORTED, "an unknown splitting rule",
     {"keys": {"tokenizer.ggml.pre": (STRING, b"no-such-rule")}, "vocab": True}),
    ("vocab_pre_u32", FORMAT, "the splitting rule as a number",
     {"keys": {"tokenizer.ggml.pre": (U32, 1)}, "vocab": True}),
    ("special_bos_is_n", FORMAT, "bos after the vocabulary",
     {"keys": {"tokenizer.ggml.bos_token_id": (U32, N_VOCAB)}, "vocab": True}),
    ("special_bos_2e31", FORMAT, "bos 2^31",
     {"keys": {"tokenizer.ggml.bos_token_id": (U32, 0x80000000)}, "vocab": True}),
    ("special_eos_is_n", FORMAT, "eos after the vocabulary",
     {"keys": {"tokenizer.ggml.eos_token_id": (U32, N_VOCAB)}, "vocab": True}),
    ("special_eos_2e32m1", FORMAT, "eos 2^32 - 1",
     {"keys": {"tokenizer.ggml.eos_token_id": (U32, U32_MAX)}, "vocab": True}),
    ("special_eos_minus_1", FORMAT, "eos -1",
     {"keys": {"tokenizer.ggml.eos_token_id": (I32, U32_MAX)}, "vocab": True}),
    ("special_eos_string", FORMAT, "eos as text",
     {"keys": {"tokenizer.ggml.eos_token_id": (STRING, b"2")}, "vocab": True}),
    ("special_padding_is_n", FORMAT, "padding after the vocabulary",
     {"keys": {"tokenizer.ggml.padding_token_id": (U32, N_VOCAB)}, "vocab": True}),
    ("special_unknown_2e31", FORMAT, "unknown 2^31",
     {"keys": {"tokenizer.ggml.unknown_token_id": (U32, 0x80000000)}, "vocab": True}),
    ("token_type_7", FORMAT, "a token type that does not exist", {"array": (TYPES, {3: 7}), "vocab": True}),
    ("token_type_255", FORMAT, "token type 255", {"array": (TYPES, {3: 255}), "vocab": True}),
    ("byte_token_0xZZ", FORMAT, "a byte token that is not spelled as one", {"array": (TYPES, {3: 6}), "vocab": True}),
    ("merge_no_space", FORMAT, "a merge of one word", {"array": (MERGES, {0: b"ab"}), "vocab": True}),
    ("merge_empty", FORMAT, "a merge without text", {"array": (MERGES, {0: b""}), "vocab": True}),
    ("merge_space_only", FORMAT, "a merge of nothing with nothing", {"array": (MERGES, {0: b" "}), "vocab": True}),
    ("merge_left_empty", FORMAT, "a merge of nothing with something", {"array": (MERGES, {0: b" a"}), "vocab": True}),
    ("merge_right_empty", FORMAT, "a merge of something with nothing",
     {"array": (MERGES, {0: b"a "}), "vocab": True}),
    ("merge_unknown_token", FORMAT, "a merge of tokens that are not there",
     {"array": (MERGES, {0: b"zzzz qqqq"}), "vocab": True}),
    ("merge_unknown_result", FORMAT, "a merge into a token that is not there",
     {"array": (MERGES, {0: b"! ?"}), "vocab": True}),
    ("merge_not_utf8", FORMAT, "a merge that is not UTF-8", {"array": (MERGES, {0: b"\xFF \xFE"}), "vocab": True}),
]


def cases():
    for name, status, what, change in CASES:
        place, after, level = (change.pop(k, None) for k in ("poke", "after", "level"))
        file, at = model(**change)
        if place:
            file = poke(file, at[place[0]]["data"] + place[1], *place[2:])
        yield name, status, None, level or "model", after(file, at) if after else file, what


def main(folder):
    os.makedirs(folder, exist_ok=True)
    raw = ((name, status, offset, "container", content, what) for name, status, offset, content, what in RAW)
    lines = []
    for part in (raw, pokes(), built(), hparams(), cases()):
        for name, status, offset, level, content, what in part:
            with open(os.path.join(folder, name + ".gguf"), "wb") as out:
                out.write(content)
            lines.append("%s\t%s\t%d\t%s\t%s\t%s\n" % (name, *status, "-" if offset is None else offset, level, what))
    with open(os.path.join(folder, "container.gguf"), "wb") as out:
        out.write(container()[0])
    with open(os.path.join(folder, "cases.tsv"), "w", encoding="utf-8") as out:
        out.writelines(lines)


main(sys.argv[1])
