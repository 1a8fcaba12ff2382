# bash completion for bn-flamegraph; written by make docs
_bn_flamegraph()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command='' at words=''
    COMPREPLY=()
    if [[ $cur == '=' ]]; then
        cur=''
    elif [[ $prev == '=' ]]; then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    for ((at = 1; at < COMP_CWORD; at++)); do
        case ${COMP_WORDS[at]} in
        record | render | text | fold | export | diff | bricks | doctor | baseline | timeline)
            command=${COMP_WORDS[at]}
            break
            ;;
        esac
    done
    if [[ -z $command && $cur != -* && $COMP_CWORD -eq 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'record render text fold export diff bricks doctor baseline timeline' -- "$cur")
        return
    fi
    case $command:$prev in
    'record:-o' | 'record:--output')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'record:--kind')
        mapfile -t COMPREPLY < <(compgen -W 'cpu wall faults' -- "$cur")
        return
        ;;
    'record:-F' | 'record:--frequency')
        return
        ;;
    'record:--sampler')
        mapfile -t COMPREPLY < <(compgen -W 'auto cycles clock timer itimer' -- "$cur")
        return
        ;;
    'record:--unwind')
        mapfile -t COMPREPLY < <(compgen -W 'auto fp' -- "$cur")
        return
        ;;
    'record:-r' | 'record:--runs')
        return
        ;;
    'record:--duration')
        return
        ;;
    'record:--debug-path')
        return
        ;;
    'record:-m' | 'record:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'record:--isa')
        mapfile -t COMPREPLY < <(compgen -W 'auto ref avx2 avxvnni avx512vnni avx512vbmi neon' -- "$cur")
        return
        ;;
    'record:-t' | 'record:--threads')
        return
        ;;
    'record:--repack')
        mapfile -t COMPREPLY < <(compgen -W 'auto never always' -- "$cur")
        return
        ;;
    'record:-p' | 'record:--prompt')
        return
        ;;
    'record:-n' | 'record:--n-predict')
        return
        ;;
    'record:--seed')
        return
        ;;
    'record:--level')
        mapfile -t COMPREPLY < <(compgen -W 'off layer brick kernel' -- "$cur")
        return
        ;;
    'record:--min-samples')
        return
        ;;
    'record:--tags')
        return
        ;;
    'record:--root')
        return
        ;;
    'record:--title')
        return
        ;;
    'record:--subtitle')
        return
        ;;
    'record:--notes')
        return
        ;;
    'record:--width')
        return
        ;;
    'record:--frame-height')
        return
        ;;
    'record:--min-width')
        return
        ;;
    'record:--count-name')
        return
        ;;
    'record:--palette')
        mapfile -t COMPREPLY < <(compgen -W 'bitnet safe' -- "$cur")
        return
        ;;
    'record:--search')
        return
        ;;
    'record:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'render:-o' | 'render:--output')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'render:--title')
        return
        ;;
    'render:--subtitle')
        return
        ;;
    'render:--notes')
        return
        ;;
    'render:--width')
        return
        ;;
    'render:--frame-height')
        return
        ;;
    'render:--min-width')
        return
        ;;
    'render:--count-name')
        return
        ;;
    'render:--palette')
        mapfile -t COMPREPLY < <(compgen -W 'bitnet safe' -- "$cur")
        return
        ;;
    'render:--search')
        return
        ;;
    'render:--tags')
        return
        ;;
    'render:--root')
        return
        ;;
    'render:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'text:-n' | 'text:--top')
        return
        ;;
    'text:--sort')
        mapfile -t COMPREPLY < <(compgen -W 'self total' -- "$cur")
        return
        ;;
    'text:--min')
        return
        ;;
    'text:-o' | 'text:--output')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'text:--tags')
        return
        ;;
    'text:--root')
        return
        ;;
    'text:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'fold:-o' | 'fold:--output')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'fold:--tags')
        return
        ;;
    'fold:--root')
        return
        ;;
    'fold:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'export:-f' | 'export:--format')
        mapfile -t COMPREPLY < <(compgen -W 'json folded speedscope firefox pprof chrome callgrind' -- "$cur")
        return
        ;;
    'export:-o' | 'export:--output')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'export:--tags')
        return
        ;;
    'export:--root')
        return
        ;;
    'export:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'diff:-o' | 'diff:--output')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'diff:--format')
        mapfile -t COMPREPLY < <(compgen -W 'text json svg folded' -- "$cur")
        return
        ;;
    'diff:--by')
        mapfile -t COMPREPLY < <(compgen -W 'self total' -- "$cur")
        return
        ;;
    'diff:--top')
        return
        ;;
    'diff:--min')
        return
        ;;
    'diff:--fail-above')
        return
        ;;
    'diff:--level')
        return
        ;;
    'diff:--widths')
        mapfile -t COMPREPLY < <(compgen -W 'union before after' -- "$cur")
        return
        ;;
    'diff:--tags')
        return
        ;;
    'diff:--root')
        return
        ;;
    'diff:--title')
        return
        ;;
    'diff:--subtitle')
        return
        ;;
    'diff:--notes')
        return
        ;;
    'diff:--width')
        return
        ;;
    'diff:--frame-height')
        return
        ;;
    'diff:--min-width')
        return
        ;;
    'diff:--count-name')
        return
        ;;
    'diff:--palette')
        mapfile -t COMPREPLY < <(compgen -W 'bitnet safe' -- "$cur")
        return
        ;;
    'diff:--search')
        return
        ;;
    'diff:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'bricks:-o' | 'bricks:--output')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'bricks:--kind')
        mapfile -t COMPREPLY < <(compgen -W 'cpu wall faults' -- "$cur")
        return
        ;;
    'bricks:-F' | 'bricks:--frequency')
        return
        ;;
    'bricks:--sampler')
        mapfile -t COMPREPLY < <(compgen -W 'auto cycles clock timer itimer' -- "$cur")
        return
        ;;
    'bricks:--unwind')
        mapfile -t COMPREPLY < <(compgen -W 'auto fp' -- "$cur")
        return
        ;;
    'bricks:-r' | 'bricks:--runs')
        return
        ;;
    'bricks:--duration')
        return
        ;;
    'bricks:--debug-path')
        return
        ;;
    'bricks:-m' | 'bricks:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'bricks:--isa')
        mapfile -t COMPREPLY < <(compgen -W 'auto ref avx2 avxvnni avx512vnni avx512vbmi neon' -- "$cur")
        return
        ;;
    'bricks:-t' | 'bricks:--threads')
        return
        ;;
    'bricks:--repack')
        mapfile -t COMPREPLY < <(compgen -W 'auto never always' -- "$cur")
        return
        ;;
    'bricks:-p' | 'bricks:--prompt')
        return
        ;;
    'bricks:-n' | 'bricks:--n-predict')
        return
        ;;
    'bricks:--seed')
        return
        ;;
    'bricks:--level')
        mapfile -t COMPREPLY < <(compgen -W 'off layer brick kernel' -- "$cur")
        return
        ;;
    'bricks:--min-samples')
        return
        ;;
    'bricks:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'doctor:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'baseline:-m' | 'baseline:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'baseline:-t' | 'baseline:--threads')
        return
        ;;
    'baseline:--isa')
        mapfile -t COMPREPLY < <(compgen -W 'auto ref avx2 avxvnni avx512vnni avx512vbmi neon' -- "$cur")
        return
        ;;
    'baseline:--seed')
        return
        ;;
    'baseline:--deterministic')
        mapfile -t COMPREPLY < <(compgen -W '1 on true yes' -- "$cur")
        return
        ;;
    'baseline:--timing')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'baseline:--kind')
        mapfile -t COMPREPLY < <(compgen -W 'cpu wall faults' -- "$cur")
        return
        ;;
    'baseline:-F' | 'baseline:--frequency')
        return
        ;;
    'baseline:--sampler')
        mapfile -t COMPREPLY < <(compgen -W 'auto cycles clock timer itimer' -- "$cur")
        return
        ;;
    'baseline:--unwind')
        mapfile -t COMPREPLY < <(compgen -W 'auto fp' -- "$cur")
        return
        ;;
    'baseline:-r' | 'baseline:--runs')
        return
        ;;
    'baseline:--duration')
        return
        ;;
    'baseline:--debug-path')
        return
        ;;
    'baseline:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'timeline:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    ':--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    esac
    if [[ $cur == -* ]]; then
        case $command in
        'record') words='--output --allow-empty --kind --frequency --sampler --unwind --user-only --runs --duration --no-inline --debug-path --model --isa --threads --repack --prompt --n-predict --seed --level --min-samples --tags --root --measured --callers --merge-inlined --merge-repeats --title --subtitle --notes --width --frame-height --min-width --count-name --palette --search --icicle --cut-left --quiet --verbose --color --help --version' ;;
        'render') words='--output --title --subtitle --notes --width --frame-height --min-width --count-name --palette --search --icicle --cut-left --tags --root --measured --callers --merge-inlined --merge-repeats --quiet --verbose --color --help --version' ;;
        'text') words='--top --sort --tree --min --output --tags --root --measured --callers --merge-inlined --merge-repeats --json --quiet --verbose --color --help --version' ;;
        'fold') words='--output --tags --root --measured --callers --merge-inlined --merge-repeats --quiet --verbose --color --help --version' ;;
        'export') words='--format --output --tags --root --measured --callers --merge-inlined --merge-repeats --quiet --verbose --color --help --version' ;;
        'diff') words='--output --vs --format --same-work --by --top --min --fail-above --strict --level --widths --tags --root --measured --callers --merge-inlined --merge-repeats --title --subtitle --notes --width --frame-height --min-width --count-name --palette --search --icicle --cut-left --json --quiet --verbose --color --help --version' ;;
        'bricks') words='--check --layers --threads-apart --output --kind --frequency --sampler --unwind --user-only --runs --duration --no-inline --debug-path --model --isa --threads --repack --prompt --n-predict --seed --level --min-samples --json --quiet --verbose --color --help --version' ;;
        'doctor') words='--json --quiet --verbose --color --help --version' ;;
        'baseline') words='--model --threads --isa --seed --deterministic --timing --archive --redraw --kind --frequency --sampler --unwind --user-only --runs --duration --no-inline --debug-path --json --quiet --verbose --color --help --version' ;;
        'timeline') words='--html --json --quiet --verbose --color --help --version' ;;
        '') words='--quiet --verbose --color --help --version' ;;
        esac
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -F _bn_flamegraph bn-flamegraph
