/* SPDX-License-Identifier: MIT
 *
 * The source of the bridge to engines of llama.cpp's family, which bn-crossval setup compiles with the tree of
 * an engine; see tools/crossval/setup.c.
 */
#include "base/embed.h"

EMBED(bn_bridge_makefile, bn_bridge_makefile_bytes, "crossval/bridges/llama.cpp/Makefile")
EMBED(bn_bridge_compat, bn_bridge_compat_bytes, "crossval/bridges/llama.cpp/compat.hpp")
EMBED(bn_bridge_engine, bn_bridge_engine_bytes, "crossval/bridges/llama.cpp/engine.cpp")
EMBED(bn_bridge_engine_h, bn_bridge_engine_h_bytes, "crossval/bridges/llama.cpp/engine.hpp")
EMBED(bn_bridge_json, bn_bridge_json_bytes, "crossval/bridges/llama.cpp/json.cpp")
EMBED(bn_bridge_json_h, bn_bridge_json_h_bytes, "crossval/bridges/llama.cpp/json.hpp")
EMBED(bn_bridge_main, bn_bridge_main_bytes, "crossval/bridges/llama.cpp/main.cpp")
EMBED(bn_bridge_trace, bn_bridge_trace_bytes, "crossval/bridges/llama.cpp/trace.cpp")
EMBED(bn_bridge_trace_h, bn_bridge_trace_h_bytes, "crossval/bridges/llama.cpp/trace.hpp")
EMBED_END
