# fish completion for the programs of bn. The programs know what can follow: see tools/cli/program/complete.c.
function __bn_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] --complete $words[2..-1] "$current" 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path "$current"
            case :folders
                __fish_complete_directories "$current"
            case :models
                bn-download list --names 2>/dev/null
            case '*'
                echo $line
        end
    end
end
for program in bn bn-bench bn-convert bn-crossval bn-download bn-fixtures bn-flamegraph bn-git bn-run bn-serve bn-train \
        bn-verify-receipt
    complete -c $program -f -a '(__bn_complete)'
end
