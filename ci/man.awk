# Makes a man page, in man(7) source, of a page of docs/reference that a program wrote (tools/cli/program/markdown.c).
#   awk -v version=0.1.0 -f ci/man.awk docs/reference/bn-run.md
# Each sentence begins a new line, as roff wants it; options, and what is typed, keep their ASCII minus.
function typed(s) {
    gsub(/\\/, "\\e", s)
    gsub(/-/, "\\-", s)
    gsub(/'/, "\\(aq", s)
    gsub(/`/, "\\(ga", s)
    gsub(/\^/, "\\(ha", s)
    gsub(/~/, "\\(ti", s)
    return (s ~ /^\./ ? "\\\\\&" : "") s
}
function prose(s,    n, i, words, word, line, last) {
    gsub(/\\\|/, "|", s) # what the page escapes
    gsub(/\\</, "<", s)
    gsub(/\\\*/, "*", s)
    gsub(/\\_/, "_", s)
    gsub(/\[exit codes\]\([^)]*\)/, "bn(7)", s)
    gsub(/\[bn\]\([^)]*\)/, "bn(1)", s)
    n = split(s, words, / +/)
    line = ""
    for (i = 1; i <= n; i++) {
        word = words[i]
        if (word ~ /^(-|'|bn-)/) word = typed(word)
        else {
            gsub(/\\/, "\\e", word)
            gsub(/`/, "\\(ga", word)
            gsub(/\^/, "\\(ha", word)
            gsub(/~/, "\\(ti", word)
        }
        if (line != "" && (last ~ /[.:]$/ || length(line) + length(word) > 75)) { print line; line = "" }
        if (line == "" && word ~ /^\./) word = "\\&" word
        line = line == "" ? word : line " " word
        last = words[i]
    }
    if (line != "") print line
}
function sentence(s) { prose(toupper(substr(s, 1, 1)) substr(s, 2) (s ~ /[.:]$/ ? "" : ".")) }
function code(s) { gsub(/^ *`|` *$/, "", s); return s }
function cells(    line, i) { # of a row: cell[1] to cell[4]
    line = $0
    gsub(/\\\|/, "\001", line)
    n_cells = split(line, cell, /\|/)
    for (i = 1; i < n_cells; i++) {
        cell[i] = cell[i + 1]
        gsub(/\001/, "|", cell[i])
        gsub(/^ +| +$/, "", cell[i])
    }
}
function option(    i, n, parts, words, out) {
    n = split(cell[1], parts, /, /)
    out = ""
    for (i = 1; i <= n; i++) {
        split(code(parts[i]), words, " ")
        out = out (i > 1 ? ", " : "") "\\fB" typed(words[1]) "\\fR"
        if (words[2] != "") out = out " \\fI" typed(words[2]) "\\fR"
        words[2] = ""
    }
    print ".TP\n" out
    sentence(cell[2])
    if (cell[3] != "") print "Default: " typed(code(cell[3])) "."
    if (cell[4] != "") {
        n = split(cell[4], parts, /, /)
        print "Environment: \\fB" code(parts[1]) "\\fR" (n > 1 ? " or \\fB" code(parts[2]) "\\fR" : "") "."
    }
}
!inside && /^# / { name = $2; next }
/^<!--/ || /^\|---/ { next }
!begun && NF > 0 {
    begun = 1
    print ".\\\" Written by ci/man.awk.\n.TH " toupper(typed(name)) " 1 2026-11-21 \"bn " version "\" \"bn manual\""
    print ".SH NAME\n" typed(name) " \\- " substr($0, length(name) + 4)
    print ".SH DESCRIPTION"
    fresh = 1
    next
}
/^```/ { # usage, and examples
    inside = !inside
    print inside ? (fresh ? "" : ".PP\n") ".RS 4\n.nf" : ".fi\n.RE"
    fresh = 0
    next
}
inside && (i = index($0, "  # ")) { print "\\fI" typed(substr($0, i + 4)) ":\\fR\n" typed(substr($0, 1, i - 1)); next }
inside { print typed($0); next }
/^## / { print ".SH " toupper(typed(substr($0, 4))); fresh = 1; next }
/^\| (code|variable|command) \|/ || /^\|.*\| environment \|$/ {
    fresh = 0
    next
}
/^\|/ {
    cells()
    if (n_cells > 4) option()
    else { print ".TP\n\\fB" typed(code(cell[1])) "\\fR"; gsub(/\[[^]]*\]\([^)]*\): /, "", cell[2]); sentence(cell[2]) }
    next
}
NF > 0 { if (!fresh) print ".PP"; fresh = 0; prose($0) }
END { print ".SH SEE ALSO\nbn(1), bn(7)" }
