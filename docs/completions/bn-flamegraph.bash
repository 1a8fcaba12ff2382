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
        diff)
            command=${COMP_WORDS[at]}
            break
            ;;
        esac
    done
    if [[ -z $command && $cur != -* && $COMP_CWORD -eq 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'diff' -- "$cur")
        return
    fi
    case $command:$prev in
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
    'diff:--tags')
        return
        ;;
    'diff:--root')
        return
        ;;
    'diff:-o' | 'diff:--output')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'diff:--color')
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
        'diff') words='--vs --format --same-work --by --top --min --fail-above --strict --level --tags --root --measured --callers --merge-repeats --output --json --quiet --verbose --color --help --version' ;;
        '') words='--quiet --verbose --color --help --version' ;;
        esac
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -F _bn_flamegraph bn-flamegraph
