# bash completion for bn-verify-receipt; written by make docs
_bn_verify_receipt()
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
        verify | sign | keygen | rules)
            command=${COMP_WORDS[at]}
            break
            ;;
        esac
    done
    if [[ -z $command && $cur != -* && $COMP_CWORD -eq 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'verify sign keygen rules' -- "$cur")
        return
    fi
    command=${command:-verify}
    case $command:$prev in
    'verify:--path')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'verify:--diff')
        return
        ;;
    'verify:--public-key')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'verify:--policy')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'verify:--max-age')
        return
        ;;
    'verify:-m' | 'verify:--model')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"
            compgen -W "$(bn-download list --names 2>/dev/null)" -- "$cur")
        return
        ;;
    'verify:--isa')
        mapfile -t COMPREPLY < <(compgen -W 'auto ref avx2 avxvnni avx512vnni avx512vbmi neon' -- "$cur")
        return
        ;;
    'verify:-t' | 'verify:--threads')
        return
        ;;
    'verify:--batch')
        return
        ;;
    'verify:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'sign:-k' | 'sign:--key')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'sign:-o' | 'sign:--output')
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    'sign:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'keygen:-o' | 'keygen:--output')
        return
        ;;
    'keygen:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    'rules:--color')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
        return
        ;;
    esac
    if [[ $cur == -* ]]; then
        case $command in
        'verify') words='--path --diff --public-key --require-signature --unverified --policy --require-gpu-kernels --require-quantized-kernels --validate-performance --max-age --allow-corrections --model --replay --isa --threads --batch --json --quiet --verbose --color --help --version' ;;
        'sign') words='--key --output --quiet --verbose --color --help --version' ;;
        'keygen') words='--output --quiet --verbose --color --help --version' ;;
        'rules') words='--json --quiet --verbose --color --help --version' ;;
        esac
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -F _bn_verify_receipt bn-verify-receipt
