# bash completion for bn; written by make docs
_bn()
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
        download | run | verify-receipt | bench | flamegraph | crossval | fixtures)
            command=${COMP_WORDS[at]}
            break
            ;;
        esac
    done
    if [[ -n $command ]]; then
        COMP_WORDS=("bn-$command" "${COMP_WORDS[@]:at+1}")
        COMP_CWORD=$((COMP_CWORD - at))
        declare -F "_bn_${command//-/_}" >/dev/null || _completion_loader "bn-$command" 2>/dev/null
        declare -F "_bn_${command//-/_}" >/dev/null && "_bn_${command//-/_}"
        return
    fi
    if [[ -z $command && $cur != -* && $COMP_CWORD -eq 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'download run verify-receipt bench flamegraph crossval fixtures' -- "$cur")
        return
    fi
    case $command:$prev in
    ':--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    esac
    if [[ $cur == -* ]]; then
        case $command in
        '') words='--quiet --verbose --color --help --version' ;;
        esac
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -F _bn bn
