# bash completion for bn-download; written by make docs
_bn_download()
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
        get | list | path | verify | clean | lock)
            command=${COMP_WORDS[at]}
            break
            ;;
        esac
    done
    if [[ -z $command && $cur != -* && $COMP_CWORD -eq 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'get list path verify clean lock '"$(bn-download list --names 2>/dev/null)"'' -- "$cur")
        return
    fi
    command=${command:-get}
    case $command:$prev in
    'get:-o' | 'get:--to')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    'get:--sha256')
        return
        ;;
    'get:--lock')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'get:--parallel')
        return
        ;;
    'get:--limit-rate')
        return
        ;;
    'get:--retries')
        return
        ;;
    'get:--stall')
        return
        ;;
    'get:--mirror')
        return
        ;;
    'get:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'list:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'path:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'verify:--lock')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'verify:--sha256')
        return
        ;;
    'verify:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'clean:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'lock:-o' | 'lock:--output')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'lock:--parallel')
        return
        ;;
    'lock:--limit-rate')
        return
        ;;
    'lock:--retries')
        return
        ;;
    'lock:--stall')
        return
        ;;
    'lock:--mirror')
        return
        ;;
    'lock:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    esac
    if [[ $cur == -* ]]; then
        case $command in
        'get') words='--to --sha256 --lock --force --no-wait --dry-run --offline --parallel --limit-rate --retries --stall --mirror --json --quiet --verbose --color --help --version' ;;
        'list') words='--names --cached --json --quiet --verbose --color --help --version' ;;
        'path') words='--quiet --verbose --color --help --version' ;;
        'verify') words='--lock --sha256 --json --quiet --verbose --color --help --version' ;;
        'clean') words='--yes --old --json --quiet --verbose --color --help --version' ;;
        'lock') words='--output --offline --parallel --limit-rate --retries --stall --mirror --quiet --verbose --color --help --version' ;;
        esac
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        case $command in
        get | path | verify | lock)
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
            ;;
        esac
    fi
}
complete -F _bn_download bn-download
