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
        run | kernels | profile)
            command=${COMP_WORDS[at]}
            break
            ;;
        esac
    done
    if [[ -z $command && $cur != -* && $COMP_CWORD -eq 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'run kernels profile' -- "$cur")
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
    'run:--batch')
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
    'run:-r' | 'run:--reps')
        return
        ;;
    'run:--warmup')
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
    'profile:-m' | 'profile:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'profile:--isa')
        return
        ;;
    'profile:--repack')
        mapfile -t COMPREPLY < <(compgen -W 'auto never always' -- "$cur")
        return
        ;;
    'profile:-t' | 'profile:--threads')
        return
        ;;
    'profile:--batch')
        return
        ;;
    'profile:-p' | 'profile:--n-prompt')
        return
        ;;
    'profile:-n' | 'profile:--n-predict')
        return
        ;;
    'profile:--seed')
        return
        ;;
    'profile:--level')
        mapfile -t COMPREPLY < <(compgen -W 'layer brick kernel' -- "$cur")
        return
        ;;
    'profile:--mode')
        mapfile -t COMPREPLY < <(compgen -W 'deferred per-layer immediate' -- "$cur")
        return
        ;;
    'profile:-r' | 'profile:--pairs')
        return
        ;;
    'profile:--check')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'profile:--graph')
        mapfile -t COMPREPLY < <(compgen -W 'tree dot json chrome path' -- "$cur")
        return
        ;;
    'profile:--pass')
        return
        ;;
    'profile:--what-if')
        return
        ;;
    'profile:--color')
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
        'run') words='--model --isa --repack --batch --n-prompt --n-predict --depth --reps --warmup --seed --threads --json --quiet --verbose --color --help --version' ;;
        'kernels') words='--model --isa --filter --min-time --set --threads --json --quiet --verbose --color --help --version' ;;
        'profile') words='--model --isa --repack --threads --batch --n-prompt --n-predict --seed --level --mode --pairs --check --graph --pass --wide --ascii --what-if --roofline --json --quiet --verbose --color --help --version' ;;
        '') words='--quiet --verbose --color --help --version' ;;
        esac
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -F _bn_bench bn-bench
