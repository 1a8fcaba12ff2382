// SPDX-License-Identifier: MIT
//
// llama.h has changed its names over the years, and forks have stopped at different versions. Each function
// here has the form that the present header declares: the overload with `int` is the newer one and drops out
// (SFINAE) where the header lacks it; the overload with `long` is the older one. The calls are found by the
// types of their arguments, which are all of the global namespace, so an undeclared name is not an error
// before the overload is tried.
#pragma once

#include <cstddef>
#include <type_traits>

#include "llama.h"

// Functions without arguments cannot be found that way. A weak declaration is null where the library lacks
// them.
extern "C" {
__attribute__((weak)) void ggml_backend_load_all(void);
__attribute__((weak)) void ggml_backend_load_all_from_path(const char *dir_path);
__attribute__((weak)) const char *llama_version(void);
}

namespace compat
{

template <class P>
auto load(const char *path, P params, int) -> decltype(llama_model_load_from_file(path, params))
{
    return llama_model_load_from_file(path, params);
}
template <class P>
auto load(const char *path, P params, long) -> decltype(llama_load_model_from_file(path, params))
{
    return llama_load_model_from_file(path, params);
}

template <class M> auto free_model(M *m, int) -> decltype(llama_model_free(m))
{
    llama_model_free(m);
}
template <class M> auto free_model(M *m, long) -> decltype(llama_free_model(m))
{
    llama_free_model(m);
}

template <class M, class P>
auto new_context(M *m, P params, int) -> decltype(llama_init_from_model(m, params))
{
    return llama_init_from_model(m, params);
}
template <class M, class P>
auto new_context(M *m, P params, long) -> decltype(llama_new_context_with_model(m, params))
{
    return llama_new_context_with_model(m, params);
}

template <class C> auto clear(C *c, int) -> decltype(llama_memory_clear(llama_get_memory(c), true))
{
    llama_memory_clear(llama_get_memory(c), true);
}
template <class C> auto clear_kv(C *c, int) -> decltype(llama_kv_self_clear(c))
{
    llama_kv_self_clear(c);
}
template <class C> auto clear_kv(C *c, long) -> decltype(llama_kv_cache_clear(c))
{
    llama_kv_cache_clear(c);
}
template <class C> auto clear(C *c, long) -> decltype(clear_kv(c, 0))
{
    clear_kv(c, 0);
}

template <class M> auto n_vocab(const M *m, int) -> decltype(llama_vocab_n_tokens(llama_model_get_vocab(m)))
{
    return llama_vocab_n_tokens(llama_model_get_vocab(m));
}
template <class M> auto n_vocab(const M *m, long) -> decltype(llama_n_vocab(m))
{
    return llama_n_vocab(m);
}

template <class M> auto n_ctx_train(const M *m, int) -> decltype(llama_model_n_ctx_train(m))
{
    return llama_model_n_ctx_train(m);
}
template <class M> auto n_ctx_train(const M *m, long) -> decltype(llama_n_ctx_train(m))
{
    return llama_n_ctx_train(m);
}

using Token = llama_token;

// Some headers declare both. The one that takes the model is the older one and still exists then.
template <class M>
auto tokenize(const M *m, const char *text, std::size_t bytes, Token *out, std::size_t room, bool add,
              bool special, int)
    -> decltype(llama_tokenize(llama_model_get_vocab(m), text, 0, out, 0, add, special))
{
    return llama_tokenize(llama_model_get_vocab(m), text, static_cast<int>(bytes), out,
                          static_cast<int>(room), add, special);
}
template <class M>
auto tokenize(const M *m, const char *text, std::size_t bytes, Token *out, std::size_t room, bool add,
              bool special, long) -> decltype(llama_tokenize(m, text, 0, out, 0, add, special))
{
    return llama_tokenize(m, text, static_cast<int>(bytes), out, static_cast<int>(room), add, special);
}

// Sets a field of the parameters if it exists; has_NAME reports whether it exists.
#define COMPAT_FIELD(name)                                                                           \
    template <class P, class T> auto set_##name(P &p, T v, int)->decltype(static_cast<void>(p.name)) \
    {                                                                                                \
        p.name = static_cast<decltype(p.name)>(v);                                                   \
    }                                                                                                \
    template <class P, class T> void set_##name(P &, T, long)                                        \
    {                                                                                                \
    }                                                                                                \
    template <class P>                                                                               \
    auto has_##name(int)->decltype(static_cast<void>(std::declval<P>().name), std::true_type{});     \
    template <class P> auto has_##name(long)->std::false_type;

COMPAT_FIELD(n_threads)
COMPAT_FIELD(n_threads_batch)
COMPAT_FIELD(flash_attn)
COMPAT_FIELD(flash_attn_type)
COMPAT_FIELD(op_offload)
COMPAT_FIELD(fused_moe_up_gate)
COMPAT_FIELD(fused_up_gate)
COMPAT_FIELD(fused_mmad)
COMPAT_FIELD(rope_cache)
COMPAT_FIELD(graph_reuse)
#undef COMPAT_FIELD

// Only ik_llama.cpp has this field, and only it applies some scales of `bitnet` models at a later node.
constexpr bool is_ik = decltype(has_fused_up_gate<llama_context_params>(0))::value;

// Separate operations and exact attention, so that each computed value can be seen and named.
inline void plain_graph(llama_context_params &p)
{
    set_flash_attn(p, false, 0);
    set_flash_attn_type(p, 0, 0);
    set_fused_moe_up_gate(p, false, 0);
    set_fused_up_gate(p, false, 0);
    set_fused_mmad(p, false, 0);
    set_rope_cache(p, false, 0);
    set_graph_reuse(p, false, 0);
}

} // namespace compat
