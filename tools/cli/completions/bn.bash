# bash completion for the programs of bn. The programs know what can follow: see tools/cli/program/complete.c.
_bn()
{
    local line current=${COMP_WORDS[COMP_CWORD]}
    [[ $current != '=' ]] || current=''
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
        :files | :folders)
            compopt -o filenames 2>/dev/null
            line=${line/#:files/file} line=${line/#:folders/directory}
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -A "$line" -- "$current")
            ;;
        :models)
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < \
                <(compgen -W "$(bn-download list --names 2>/dev/null)" -- "$current")
            ;;
        *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done < <("$1" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _bn bn bn-bench bn-convert bn-crossval bn-download bn-fixtures bn-flamegraph bn-git bn-run bn-serve \
    bn-train bn-verify-receipt
