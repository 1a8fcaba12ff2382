# bash completion for bn-crossval; written by make docs
_bn_crossval()
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
        ladder | tokens | logits | trace | report | bench | serve)
            command=${COMP_WORDS[at]}
            break
            ;;
        esac
    done
    if [[ -z $command && $cur != -* && $COMP_CWORD -eq 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'ladder tokens logits trace report bench serve' -- "$cur")
        return
    fi
    command=${command:-ladder}
    case $command:$prev in
    'ladder:-m' | 'ladder:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'ladder:--ref')
        mapfile -t COMPREPLY < <(compgen -W 'oracle bn dump:' -- "$cur")
        return
        ;;
    'ladder:--ref-model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'ladder:--timeout')
        return
        ;;
    'ladder:-p' | 'ladder:--prompt')
        return
        ;;
    'ladder:-f' | 'ladder:--file')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'ladder:--tokens')
        return
        ;;
    'ladder:--positions')
        return
        ;;
    'ladder:-t' | 'ladder:--threads')
        return
        ;;
    'ladder:--isa')
        mapfile -t COMPREPLY < <(compgen -W 'auto ref avx2 avxvnni avx512vnni avx512vbmi neon' -- "$cur")
        return
        ;;
    'ladder:--thresholds')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'ladder:--junit')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'ladder:--html')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'ladder:-n' | 'ladder:--n-predict')
        return
        ;;
    'ladder:--receipt')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'ladder:--trace')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'ladder:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'tokens:-m' | 'tokens:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'tokens:--ref')
        mapfile -t COMPREPLY < <(compgen -W 'oracle bn dump:' -- "$cur")
        return
        ;;
    'tokens:--ref-model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'tokens:--timeout')
        return
        ;;
    'tokens:-p' | 'tokens:--prompt')
        return
        ;;
    'tokens:-f' | 'tokens:--file')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'tokens:--tokens')
        return
        ;;
    'tokens:--positions')
        return
        ;;
    'tokens:-t' | 'tokens:--threads')
        return
        ;;
    'tokens:--isa')
        mapfile -t COMPREPLY < <(compgen -W 'auto ref avx2 avxvnni avx512vnni avx512vbmi neon' -- "$cur")
        return
        ;;
    'tokens:--thresholds')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'tokens:--junit')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'tokens:--html')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'tokens:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'logits:-m' | 'logits:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'logits:--ref')
        mapfile -t COMPREPLY < <(compgen -W 'oracle bn dump:' -- "$cur")
        return
        ;;
    'logits:--ref-model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'logits:--timeout')
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
    'logits:--positions')
        return
        ;;
    'logits:-t' | 'logits:--threads')
        return
        ;;
    'logits:--isa')
        mapfile -t COMPREPLY < <(compgen -W 'auto ref avx2 avxvnni avx512vnni avx512vbmi neon' -- "$cur")
        return
        ;;
    'logits:--thresholds')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'logits:--junit')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'logits:--html')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'logits:--trace')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'logits:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'trace:-m' | 'trace:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'trace:--ref')
        mapfile -t COMPREPLY < <(compgen -W 'oracle bn dump:' -- "$cur")
        return
        ;;
    'trace:--ref-model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'trace:--timeout')
        return
        ;;
    'trace:-p' | 'trace:--prompt')
        return
        ;;
    'trace:-f' | 'trace:--file')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'trace:--tokens')
        return
        ;;
    'trace:--positions')
        return
        ;;
    'trace:-t' | 'trace:--threads')
        return
        ;;
    'trace:--isa')
        mapfile -t COMPREPLY < <(compgen -W 'auto ref avx2 avxvnni avx512vnni avx512vbmi neon' -- "$cur")
        return
        ;;
    'trace:--thresholds')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'trace:--junit')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'trace:--html')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'trace:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'report:-o' | 'report:--output')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'report:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'bench:-m' | 'bench:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'bench:--ref')
        mapfile -t COMPREPLY < <(compgen -W 'oracle bn dump:' -- "$cur")
        return
        ;;
    'bench:--ref-model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'bench:--timeout')
        return
        ;;
    'bench:-p' | 'bench:--prompt-tokens')
        return
        ;;
    'bench:-n' | 'bench:--n-predict')
        return
        ;;
    'bench:--reps')
        return
        ;;
    'bench:-t' | 'bench:--threads')
        return
        ;;
    'bench:--isa')
        mapfile -t COMPREPLY < <(compgen -W 'auto ref avx2 avxvnni avx512vnni avx512vbmi neon' -- "$cur")
        return
        ;;
    'bench:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'serve:-t' | 'serve:--threads')
        return
        ;;
    'serve:--isa')
        mapfile -t COMPREPLY < <(compgen -W 'auto ref avx2 avxvnni avx512vnni avx512vbmi neon' -- "$cur")
        return
        ;;
    'serve:--batch')
        return
        ;;
    'serve:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    esac
    if [[ $cur == -* ]]; then
        case $command in
        'ladder') words='--model --ref --ref-model --timeout --prompt --file --tokens --positions --threads --isa --thresholds --junit --html --n-predict --receipt --trace --json --quiet --verbose --color --help --version' ;;
        'tokens') words='--model --ref --ref-model --timeout --prompt --file --tokens --positions --threads --isa --thresholds --junit --html --json --quiet --verbose --color --help --version' ;;
        'logits') words='--model --ref --ref-model --timeout --prompt --file --tokens --positions --threads --isa --thresholds --junit --html --trace --json --quiet --verbose --color --help --version' ;;
        'trace') words='--model --ref --ref-model --timeout --prompt --file --tokens --positions --threads --isa --thresholds --junit --html --exact --json --quiet --verbose --color --help --version' ;;
        'report') words='--output --quiet --verbose --color --help --version' ;;
        'bench') words='--model --ref --ref-model --timeout --prompt-tokens --n-predict --reps --threads --isa --json --quiet --verbose --color --help --version' ;;
        'serve') words='--threads --isa --batch --quiet --verbose --color --help --version' ;;
        esac
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -F _bn_crossval bn-crossval
