# bash completion for bn-fixtures; written by make docs
_bn_fixtures()
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
        gen | golden | corrupt | verify | sums)
            command=${COMP_WORDS[at]}
            break
            ;;
        esac
    done
    if [[ -z $command && $cur != -* && $COMP_CWORD -eq 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'gen golden corrupt verify sums' -- "$cur")
        return
    fi
    case $command:$prev in
    'gen:--size')
        mapfile -t COMPREPLY < <(compgen -W 'nano tiny small medium 2b' -- "$cur")
        return
        ;;
    'gen:--arch')
        mapfile -t COMPREPLY < <(compgen -W 'bitnet-b1.58 bitnet llama' -- "$cur")
        return
        ;;
    'gen:--format')
        mapfile -t COMPREPLY < <(compgen -W 'i2_s tq2_0 tq1_0 f16' -- "$cur")
        return
        ;;
    'gen:--vocab')
        return
        ;;
    'gen:--tokenizer')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'gen:--seed')
        return
        ;;
    'gen:-o' | 'gen:--output')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    'gen:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'golden:--fixtures')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    'golden:-o' | 'golden:--output')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    'golden:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'corrupt:-o' | 'corrupt:--output')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    'corrupt:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'verify:-o' | 'verify:--output')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    'verify:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'sums:-o' | 'sums:--output')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    'sums:--color')
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
        'gen') words='--size --arch --format --vocab --tokenizer --tied --seed --output --json --quiet --verbose --color --help --version' ;;
        'golden') words='--fixtures --output --quiet --verbose --color --help --version' ;;
        'corrupt') words='--output --quiet --verbose --color --help --version' ;;
        'verify') words='--output --json --quiet --verbose --color --help --version' ;;
        'sums') words='--output --quiet --verbose --color --help --version' ;;
        '') words='--quiet --verbose --color --help --version' ;;
        esac
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -F _bn_fixtures bn-fixtures
