# shellcheck shell=bash
# Sourced by scripts of ci/ that compare two commits, from the root of the repository. The name of the script is in $script.
#
#   complain TEXT...             a line on standard error
#   commit_of REVISION           its digest; exit 3 when there is no such commit
#   base_commit                  what HEAD is compared with, see below; fails when there is nothing
#   build_commit NAME COMMIT PROGRAM OUT
#                                builds PROGRAM of COMMIT in $commits_dir/NAME, the log in OUT; exit 10 when it does not build
#   programs                     where a build has its programs, below its folder
#
# With --help anywhere before -- such a script prints the comment at its top and ends.
#
# build_commit needs commits_start before it, which makes $commits_dir and removes it at the end.
complain() { echo "${script:-ci}: $*" >&2; }
for argument; do
    case $argument in
    --) break ;;
    -h | --help)
        sed -n '2,/^[^#]/ s/^#\( \|$\)//p' "ci/$script.sh"
        exit 0
        ;;
    esac
done
commit_of() {
    git rev-parse --verify --quiet "$1^{commit}" || {
        complain "no such commit: $1"
        exit 3
    }
}
# The base of a pull request, the commit that was entered, the commit that a push replaced, or else (nightly) the newest
# commit of the day before. A pull request is compared with its branch point, not with later commits of the branch.
base_commit() {
    local candidate base
    for candidate in "${BENCH_BASE_PULL:-}" "${BENCH_BASE_MANUAL:-}" "${BENCH_BASE_PUSH:-}" \
        "$(git rev-list -n 1 --before='24 hours ago' HEAD)" 'HEAD~1'; do
        # A first push "replaces" a commit of zeros, which is not a candidate.
        if [ -n "$candidate" ] && base=$(git rev-parse --verify --quiet "$candidate^{commit}"); then
            git merge-base "$base" HEAD
            return
        fi
    done
    complain "no commit to compare with"
    return 1
}
commits_start() {
    commits_dir=$(mktemp -d) || exit 8
    trap 'rm -rf "$commits_dir"; git worktree prune' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}
programs() { echo "build/$(basename "${CC:-gcc}")"; }
build_commit() {
    complain "$1 $2"
    git worktree add --quiet --detach "$commits_dir/$1" "$2" >&2 || exit 8
    if ! make -C "$commits_dir/$1" BUILD=build CC="${CC:-gcc}" -j"$(nproc)" "$(programs)/$3" >"$4/build-$1.log" 2>&1; then
        tail -n 20 "$4/build-$1.log" >&2
        complain "$1 ($2) does not build: $4/build-$1.log"
        exit 10
    fi
}
