# bash completion for bn-bench; written by make docs
_bn_bench()
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
        run | kernels | doctor | memory | quant)
            command=${COMP_WORDS[at]}
            break
            ;;
        esac
    done
    if [[ -z $command && $cur != -* && $COMP_CWORD -eq 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'run kernels doctor memory quant' -- "$cur")
        return
    fi
    case $command:$prev in
    'run:-m' | 'run:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'run:--isa')
        return
        ;;
    'run:--repack')
        mapfile -t COMPREPLY < <(compgen -W 'auto never always' -- "$cur")
        return
        ;;
    'run:-p' | 'run:--n-prompt')
        return
        ;;
    'run:-n' | 'run:--n-predict')
        return
        ;;
    'run:-d' | 'run:--depth')
        return
        ;;
    'run:-b' | 'run:--batch')
        return
        ;;
    'run:--concurrent')
        return
        ;;
    'run:-r' | 'run:--reps')
        return
        ;;
    'run:--warmup')
        return
        ;;
    'run:--precision')
        return
        ;;
    'run:--max-time')
        return
        ;;
    'run:--timeout')
        return
        ;;
    'run:--loads')
        return
        ;;
    'run:--seed')
        return
        ;;
    'run:-t' | 'run:--threads')
        return
        ;;
    'run:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'kernels:-m' | 'kernels:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'kernels:--isa')
        return
        ;;
    'kernels:--filter')
        return
        ;;
    'kernels:--min-time')
        return
        ;;
    'kernels:--set')
        return
        ;;
    'kernels:-t' | 'kernels:--threads')
        return
        ;;
    'kernels:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'doctor:--require')
        return
        ;;
    'doctor:--repeat')
        return
        ;;
    'doctor:--min-time')
        return
        ;;
    'doctor:-t' | 'doctor:--threads')
        return
        ;;
    'doctor:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'memory:-m' | 'memory:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'memory:--ops')
        return
        ;;
    'memory:--filter')
        return
        ;;
    'memory:--min-time')
        return
        ;;
    'memory:-t' | 'memory:--threads')
        return
        ;;
    'memory:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'quant:-m' | 'quant:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'quant:--isa')
        return
        ;;
    'quant:--shape')
        return
        ;;
    'quant:--filter')
        return
        ;;
    'quant:--min-time')
        return
        ;;
    'quant:-t' | 'quant:--threads')
        return
        ;;
    'quant:--color')
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
        'run') words='--model --isa --repack --n-prompt --n-predict --depth --batch --concurrent --reps --warmup --precision --max-time --timeout --loads --cold --seed --threads --json --quiet --verbose --color --help --version' ;;
        'kernels') words='--model --isa --filter --min-time --set --threads --json --quiet --verbose --color --help --version' ;;
        'doctor') words='--require --no-roofs --repeat --min-time --threads --json --quiet --verbose --color --help --version' ;;
        'memory') words='--model --ops --filter --min-time --threads --json --quiet --verbose --color --help --version' ;;
        'quant') words='--model --isa --shape --filter --min-time --threads --json --quiet --verbose --color --help --version' ;;
        '') words='--quiet --verbose --color --help --version' ;;
        esac
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -F _bn_bench bn-bench
