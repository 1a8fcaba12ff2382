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
        run | kernels | memory | quant | profile | doctor | ab | compare | baseline | trend | report)
            command=${COMP_WORDS[at]}
            break
            ;;
        esac
    done
    if [[ -z $command && $cur != -* && $COMP_CWORD -eq 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'run kernels memory quant profile doctor ab compare baseline trend report' -- "$cur")
        return
    fi
    case $command:$prev in
    'run:-m' | 'run:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'run:--isa')
        mapfile -t COMPREPLY < <(compgen -W 'auto ref avx2 avxvnni avx512vnni avx512vbmi neon' -- "$cur")
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
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'kernels:--isa')
        mapfile -t COMPREPLY < <(compgen -W 'auto ref avx2 avxvnni avx512vnni avx512vbmi neon all' -- "$cur")
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
    'memory:-m' | 'memory:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
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
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'quant:--isa')
        mapfile -t COMPREPLY < <(compgen -W 'auto ref avx2 avxvnni avx512vnni avx512vbmi neon all' -- "$cur")
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
    'profile:-m' | 'profile:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'profile:--isa')
        mapfile -t COMPREPLY < <(compgen -W 'auto ref avx2 avxvnni avx512vnni avx512vbmi neon' -- "$cur")
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
    'ab:-r' | 'ab:--rounds')
        return
        ;;
    'ab:--warmup')
        return
        ;;
    'ab:--max-time')
        return
        ;;
    'ab:--timeout')
        return
        ;;
    'ab:--prepare')
        return
        ;;
    'ab:--input')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'ab:--seed')
        return
        ;;
    'ab:--extract')
        return
        ;;
    'ab:--filter')
        return
        ;;
    'ab:--metric')
        return
        ;;
    'ab:--margin')
        return
        ;;
    'ab:--sessions')
        return
        ;;
    'ab:--thresholds')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'ab:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'compare:--thresholds')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'compare:--drift')
        return
        ;;
    'compare:--margin')
        return
        ;;
    'compare:--fail-on')
        mapfile -t COMPREPLY < <(compgen -W 'any warning critical' -- "$cur")
        return
        ;;
    'compare:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'baseline:--ledger')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    'baseline:--baseline')
        return
        ;;
    'baseline:--save-baseline')
        return
        ;;
    'baseline:--reason')
        return
        ;;
    'baseline:--thresholds')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'baseline:--drift')
        return
        ;;
    'baseline:--margin')
        return
        ;;
    'baseline:--fail-on')
        mapfile -t COMPREPLY < <(compgen -W 'any warning critical' -- "$cur")
        return
        ;;
    'baseline:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'trend:--ledger')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    'trend:--suite')
        return
        ;;
    'trend:--machine')
        return
        ;;
    'trend:--name')
        return
        ;;
    'trend:--test')
        return
        ;;
    'trend:--metric')
        return
        ;;
    'trend:--last')
        return
        ;;
    'trend:--least')
        return
        ;;
    'trend:--margin')
        return
        ;;
    'trend:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'report:--format')
        mapfile -t COMPREPLY < <(compgen -W 'text json jsonl csv csv-samples csv-comparisons markdown junit html benchstat libtest github-smaller github-bigger prometheus' -- "$cur")
        return
        ;;
    'report:-o' | 'report:--output')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'report:--dir')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    'report:--color')
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
        'memory') words='--model --ops --filter --min-time --threads --json --quiet --verbose --color --help --version' ;;
        'quant') words='--model --isa --shape --filter --min-time --threads --json --quiet --verbose --color --help --version' ;;
        'profile') words='--model --isa --repack --threads --batch --n-prompt --n-predict --seed --level --mode --pairs --check --graph --pass --wide --ascii --what-if --roofline --json --quiet --verbose --color --help --version' ;;
        'doctor') words='--require --no-roofs --repeat --min-time --threads --json --quiet --verbose --color --help --version' ;;
        'ab') words='--rounds --warmup --max-time --timeout --prepare --input --shell --ignore-failure --seed --no-null --no-control --extract --series --filter --output-only --metric --margin --strict --self-test --sessions --thresholds --json --quiet --verbose --color --help --version' ;;
        'compare') words='--thresholds --drift --margin --fail-on --strict --unlike --json --quiet --verbose --color --help --version' ;;
        'baseline') words='--ledger --baseline --save-baseline --allow-dirty --allow-stale --allow-contended --reason --note --thresholds --drift --margin --fail-on --strict --unlike --json --quiet --verbose --color --help --version' ;;
        'trend') words='--ledger --suite --machine --name --test --metric --last --least --margin --json --quiet --verbose --color --help --version' ;;
        'report') words='--format --output --dir --json --quiet --verbose --color --help --version' ;;
        '') words='--quiet --verbose --color --help --version' ;;
        esac
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -F _bn_bench bn-bench
