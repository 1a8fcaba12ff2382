#!/usr/bin/env bash
# What `make install` puts down is complete: the programs find each other, the oracle, and the documents; a program in C and one in
# C++ build against the header and the library by the command that bn.h gives.
set -u
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
# shellcheck source=tests/tap.sh
. tests/tap.sh
variant=$(basename "${OUT:-build/gcc}")
case $variant in gcc | clang) ;; *)
    skip "installation" "a build with sanitizers is not for installing"
    exit
    ;;
esac
check "make install" env -u MAKEFLAGS -u MFLAGS make -s "CC=$variant" "BUILD=$(dirname "${OUT:-build/gcc}")" install-files \
    "DESTDIR=$tmp" PREFIX=/usr
model=$root/fixtures/shakespeare-5m-i2_s.gguf
PATH=$tmp/usr/bin:/usr/bin:/bin
mkdir "$tmp/empty"
cd "$tmp/empty" || exit 1

says 0 "bn lists the installed programs" '^  verify-receipt ' bn
if [ -x "$root/${OUT:-build/gcc}/crossval/bn-reference" ]; then
    says 0 "bn-crossval finds the oracle" '^agree: 2 tokens, 1 reference' bn-crossval ladder -q -p 'ROMEO:' --ref oracle
fi
check "a run is replayed" bash -c "bn-run -q -p 'ROMEO:' -n 4 --receipt r.json && bn-verify-receipt -q --replay r.json"
for file in LICENSE README.md SECURITY.md docs/howto/ci-gate.md docs/explain/receipts.md; do
    check "$file is installed" test -s "$tmp/usr/share/doc/bn/$file"
done
dangling() {
    cd "$tmp/usr/share/doc/bn" || exit 1
    find . -name '*.md' | while read -r page; do
        grep -oE '\]\([a-z./_-]+\.md[)#]' "$page" | sed -E 's/^\]\(//; s/[)#]$//' | while read -r link; do
            [ -e "$(dirname "$page")/$link" ] || echo "$page: $link"
        done
    done | grep -vE 'CONTRIBUTING.md|docs/baselines'
}
check "links between installed documents lead somewhere" equal "$(dangling)" ''

cat >use.c <<'END'
#include <bn.h>
#include <stdio.h>
#include <stdlib.h>

static bn_status next_token(const bn_model *model, int32_t *next, bn_error *err)
{
    const bn_tokenizer *tok = bn_model_tokenizer(model);
    bn_sampler_options greedy = BN_SAMPLER_OPTIONS_INIT;
    size_t n_ids = 0, n_vocab = bn_tokenizer_n_vocab(tok);
    float *logits = (float *)malloc(n_vocab * sizeof *logits);
    bn_session *session = NULL;
    bn_sampler *sampler = NULL;
    int32_t *ids = NULL;
    bn_status status = bn_tokenize(tok, "ROMEO:", 6, 0, &ids, &n_ids, err);
    if (status == BN_OK) status = bn_session_open(&session, model, NULL, err);
    if (status == BN_OK) status = bn_session_eval(session, ids, n_ids, BN_LOGITS_LAST, logits, err);
    if (status == BN_OK) status = bn_sampler_open(&sampler, &greedy, n_vocab, err);
    if (status == BN_OK) *next = bn_sampler_next(sampler, logits, ids, n_ids);
    bn_sampler_close(sampler);
    bn_session_close(session);
    bn_free(ids);
    free(logits);
    return status;
}

int main(int argc, char **argv)
{
    bn_error err = {BN_OK};
    bn_model *model = NULL;
    int32_t next = -1;
    bn_status status = bn_model_open(&model, argv[argc - 1], NULL, &err);
    if (status == BN_OK) status = next_token(model, &next, &err);
    bn_model_close(model);
    printf("%d%s\n", (int)next, err.msg);
    return (int)bn_status_exit(status);
}
END
sed -n '/^ \*     cc /s/^ \*     //p' "$tmp/usr/include/bn.h" >command.txt
check "bn.h gives a command" test -s command.txt
build() { # compiler, language
    rm -f use
    sh -c "$(sed "s#^cc use.c#$1 -x $2 use.c -x none -I$tmp/usr/include -L$tmp/usr/lib#" command.txt)"
}
expected=$(bn-run -q --json -p 'ROMEO:' -n 1 | sed -nE 's/^ *"ids": \[([0-9]+).*/\1/p')
check "a program in C builds by that command" build "$variant" c
check "and chooses the token that bn-run does" equal "$(./use "$model")" "$expected"
cxx=${variant/gcc/g++} cxx=${cxx/clang/clang++}
if command -v "$cxx" >/dev/null; then
    check "the same file builds as C++" build "$cxx" c++
    check "and chooses the same token" equal "$(./use "$model")" "$expected"
fi
# Every function of the header is in the library.
grep -oE '\bbn_[a-z0-9_]+\(' "$tmp/usr/include/bn.h" | tr -d '(' | sort -u >declared
nm -g --defined-only "$tmp/usr/lib/libbn.a" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u >defined
check "every function of bn.h is in libbn.a" equal "$(comm -23 declared defined | grep -v '_fn$')" ""
