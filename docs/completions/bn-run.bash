# bash completion for bn-run; written by make docs
_bn_run()
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
        generate | chat | tokenize | detokenize | score | logits | inspect)
            command=${COMP_WORDS[at]}
            break
            ;;
        esac
    done
    if [[ -z $command && $cur != -* && $COMP_CWORD -eq 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'generate chat tokenize detokenize score logits inspect' -- "$cur")
        return
    fi
    command=${command:-generate}
    case $command:$prev in
    'generate:-m' | 'generate:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'generate:-t' | 'generate:--threads')
        return
        ;;
    'generate:--isa')
        mapfile -t COMPREPLY < <(compgen -W 'auto ref avx2 avxvnni avx512vnni avx512vbmi neon' -- "$cur")
        return
        ;;
    'generate:--ctx')
        return
        ;;
    'generate:--batch')
        return
        ;;
    'generate:--repack')
        mapfile -t COMPREPLY < <(compgen -W 'auto never always' -- "$cur")
        return
        ;;
    'generate:-p' | 'generate:--prompt')
        return
        ;;
    'generate:-f' | 'generate:--file')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'generate:--tokens')
        return
        ;;
    'generate:--template')
        mapfile -t COMPREPLY < <(compgen -W 'auto raw instruct llama3-chat bitnet' -- "$cur")
        return
        ;;
    'generate:--system')
        return
        ;;
    'generate:-n' | 'generate:--n-predict')
        return
        ;;
    'generate:--temp')
        return
        ;;
    'generate:--top-k')
        return
        ;;
    'generate:--top-p')
        return
        ;;
    'generate:--min-p')
        return
        ;;
    'generate:--repeat-penalty')
        return
        ;;
    'generate:--seed')
        return
        ;;
    'generate:--stop')
        return
        ;;
    'generate:--stop-id')
        return
        ;;
    'generate:--receipt')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'generate:--trace')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    'generate:--profile')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'generate:--profile-level')
        mapfile -t COMPREPLY < <(compgen -W 'layer brick kernel' -- "$cur")
        return
        ;;
    'generate:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'chat:-m' | 'chat:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'chat:-t' | 'chat:--threads')
        return
        ;;
    'chat:--isa')
        mapfile -t COMPREPLY < <(compgen -W 'auto ref avx2 avxvnni avx512vnni avx512vbmi neon' -- "$cur")
        return
        ;;
    'chat:--ctx')
        return
        ;;
    'chat:--batch')
        return
        ;;
    'chat:--repack')
        mapfile -t COMPREPLY < <(compgen -W 'auto never always' -- "$cur")
        return
        ;;
    'chat:--template')
        mapfile -t COMPREPLY < <(compgen -W 'auto raw instruct llama3-chat bitnet' -- "$cur")
        return
        ;;
    'chat:--system')
        return
        ;;
    'chat:-p' | 'chat:--prompt')
        return
        ;;
    'chat:-n' | 'chat:--n-predict')
        return
        ;;
    'chat:--temp')
        return
        ;;
    'chat:--top-k')
        return
        ;;
    'chat:--top-p')
        return
        ;;
    'chat:--min-p')
        return
        ;;
    'chat:--repeat-penalty')
        return
        ;;
    'chat:--seed')
        return
        ;;
    'chat:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'tokenize:-m' | 'tokenize:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'tokenize:-p' | 'tokenize:--prompt')
        return
        ;;
    'tokenize:-f' | 'tokenize:--file')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'tokenize:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'detokenize:-m' | 'detokenize:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'detokenize:--tokens')
        return
        ;;
    'detokenize:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'score:-m' | 'score:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'score:-t' | 'score:--threads')
        return
        ;;
    'score:--isa')
        mapfile -t COMPREPLY < <(compgen -W 'auto ref avx2 avxvnni avx512vnni avx512vbmi neon' -- "$cur")
        return
        ;;
    'score:--ctx')
        return
        ;;
    'score:--batch')
        return
        ;;
    'score:-p' | 'score:--prompt')
        return
        ;;
    'score:-f' | 'score:--file')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'score:--tokens')
        return
        ;;
    'score:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'logits:-m' | 'logits:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'logits:-t' | 'logits:--threads')
        return
        ;;
    'logits:--isa')
        mapfile -t COMPREPLY < <(compgen -W 'auto ref avx2 avxvnni avx512vnni avx512vbmi neon' -- "$cur")
        return
        ;;
    'logits:--ctx')
        return
        ;;
    'logits:--batch')
        return
        ;;
    'logits:-p' | 'logits:--prompt')
        return
        ;;
    'logits:-f' | 'logits:--file')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'logits:--tokens')
        return
        ;;
    'logits:-o' | 'logits:--output')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'logits:--trace')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    'logits:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'inspect:-m' | 'inspect:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'inspect:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    esac
    if [[ $cur == -* ]]; then
        case $command in
        'generate') words='--model --threads --isa --ctx --batch --repack --prompt --file --tokens --template --system --n-predict --temp --top-k --top-p --min-p --repeat-penalty --seed --stop --stop-id --ignore-end --receipt --receipt-text --trace --profile --profile-level --deterministic --json --quiet --verbose --color --help --version' ;;
        'chat') words='--model --threads --isa --ctx --batch --repack --template --system --prompt --n-predict --temp --top-k --top-p --min-p --repeat-penalty --seed --quiet --verbose --color --help --version' ;;
        'tokenize') words='--model --prompt --file --ids --jsonl --no-bos --special --json --quiet --verbose --color --help --version' ;;
        'detokenize') words='--model --tokens --special --quiet --verbose --color --help --version' ;;
        'score') words='--model --threads --isa --ctx --batch --prompt --file --tokens --per-token --json --quiet --verbose --color --help --version' ;;
        'logits') words='--model --threads --isa --ctx --batch --prompt --file --tokens --output --all --digest --trace --quiet --verbose --color --help --version' ;;
        'inspect') words='--model --limits --json --quiet --verbose --color --help --version' ;;
        esac
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -F _bn_run bn-run
