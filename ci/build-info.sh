#!/bin/sh
# Prints a header about the build: the commit, whether the tree differs from it, the compiler and its flags ($1, $2). Stored
# baselines do not count as differences: the programs write them.
cd "$(dirname "$0")/.." || exit 1
commit=unknown
dirty=0
if [ -e .git ] && git rev-parse --verify -q HEAD >/dev/null 2>&1; then
    commit=$(git rev-parse HEAD)
    git diff --quiet HEAD -- . ':(exclude,glob)baselines/*/**' 2>/dev/null || dirty=1
elif [ -f VERSION ]; then
    commit=$(cat VERSION)
fi
compiler=$($1 --version | head -n 1 | tr -d '"\134')
flags=$(printf '%s' "${2-}" | tr -d '"\134')
cat <<END
/* Written by ci/build-info.sh. */
#define BN_BUILD_COMMIT "$commit"
#define BN_BUILD_DIRTY $dirty
#define BN_BUILD_COMPILER "$compiler"
#define BN_BUILD_FLAGS "$flags"
END
