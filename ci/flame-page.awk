# Writes what a page of ci/phase2-flamegraph.sh has in addition to the output of commands. Input: bn-flamegraph text --json.
# MODE in the environment selects what is written: shows (at most five sentences, one a line), page, or row (of the index).
# Other variables: NAME of the recording; FOLDER of the earlier one, CHANGE ("FROM TO FUNCTION", empty: none is significant)
# or WHY there is no comparison; TIMING (document). Texts of recordings are untrusted: they stay inside code spans.

# ---- the document: fact["about.model.sha256"], an array of numbers is one text ----
{
    line = $0
    sub(/^ +/, "", line)
    sub(/,$/, "", line)
    if (line ~ /^[]}]/) { depth--; next }
    name = count[depth]++
    if (match(line, /^"[A-Za-z0-9_ .-]*": /)) {
        name = substr(line, 2, RLENGTH - 4)
        line = substr(line, RLENGTH + 1)
    }
    if (line == "{" || line == "[") { path[depth + 1] = depth == 0 ? "" : path[depth] name "."; count[++depth] = 0; next }
    if (line == "null") next
    if (line ~ /^"/) { line = unquoted(line); is_text[path[depth] name] = 1 }
    fact[path[depth] name] = line
}
function unquoted(text) {
    text = substr(text, 2, length(text) - 2)
    gsub(/\\"/, "\"", text)
    gsub(/\\\\/, "\\", text)
    return text
}
function about(name) { return fact["about." name] }
function has(name) { return ("about." name) in fact }
# The reason that the document has for a missing value.
function why(name,   parent, own) {
    own = name
    sub(/^.*\./, "", own)
    parent = substr(name, 1, length(name) - length(own))
    return has(parent "unavailable." own) ? about(parent "unavailable." own) : "the recording does not say"
}

# ---- numbers and texts ----
function four(x) { return sprintf(x >= 999.95 ? "%.0f" : x >= 99.995 ? "%.1f" : x >= 9.9995 ? "%.2f" : "%.3f", x) }
function scaled(x, step, units,   u, n, i) {
    x += 0 # a text is compared as a text
    n = split(units, u, " ")
    for (i = 1; i < n && x >= step; i++) x /= step
    return (x == int(x) && (i == 1 || step == 1024) ? x : four(x)) " " u[i]
}
function time(ns) { return scaled(ns, 1000, "ns us ms s") }
function bytes(n) { return scaled(n, 1024, "bytes KiB MiB GiB") }
function rate(n) { return scaled(n, 1000, "B/s kB/s MB/s GB/s TB/s") }
function percent(share) { return sprintf("%.1f %%", 100 * share) }
# Inline code, also of text with backticks; bars do not end a cell.
function code(text,   fence, spaced) {
    fence = "`"
    while (index(text, fence)) fence = fence "`"
    spaced = text == "" || text ~ /^[ `]|[ `]$/ ? " " : ""
    gsub(/\|/, "\\|", text)
    return fence spaced text spaced fence
}
function escaped(text) {
    gsub(/[][\\`*_{}<>|#]/, "\\\\&", text)
    return text
}
function number(name, x) {
    if (name ~ /_ns$/) return time(x)
    if (name ~ /share$/) return sprintf("%.2f %%", 100 * x)
    if (name ~ /_bytes$/) return bytes(x)
    if (name ~ /_per_s$/) return rate(x)
    return name ~ /_milli$/ ? x / 1000 : x
}
function value(name,   x, parts, n, i, text) {
    x = about(name)
    if (("about." name) in is_text) return code(x)
    if (x == "true" || x == "false") return x == "true" ? "yes" : "no"
    if (x !~ /^\[/) return number(name, x)
    n = split(substr(x, 2, length(x) - 2), parts, ", ")
    for (i = 1; i <= n; i++) text = text (i > 1 ? ", " : "") number(name, parts[i])
    return n > 0 ? text : "none"
}

# ---- what it shows: shares, the limit, the next step, the change, whether to trust it ----
function class(name) { return fact["classes." name] + 0 }
function shares(   text) {
    text = "Matrix multiplication takes " percent(class("matrix multiplication")) " of the samples, attention " \
        percent(class("attention")) ", memory (copies and allocation) " percent(class("memory")) ", functions of no class " \
        percent(class("other")) ", waiting " percent(class("waiting"))
    if (class("waiting") > 0.05 && class("waiting") < 1)
        text = text "; without waiting, matrix multiplication takes " percent(class("matrix multiplication") / (1 - class("waiting")))
    return text "."
}
# The class of work with the largest share, other than this one.
function largest(except,   key, most) {
    most = ""
    for (key in fact)
        if (sub(/^classes\./, "", key) && key !~ /^(waiting|other|thread, phase or layer)$/ && key != except && \
            (most == "" || class(key) > class(most) || (class(key) == class(most) && key < most))) most = key
    return most
}
# The time of one pass in ns and its bytes: a token decoded alone, or with a single token the pass over the prompt.
function pass() {
    pass_bytes = pass_ns = 0
    if (has("reads.token_bytes")) {
        pass_what = "a decoded token"
        pass_bytes = about("reads.token_bytes")
        pass_ns = about("phases.embed_ns") + about("phases.forward_ns") + about("phases.head_ns") + about("phases.sample_ns")
    } else if (has("reads.prompt_bytes")) {
        pass_what = "one pass over the prompt"
        pass_bytes = about("reads.prompt_bytes")
        pass_ns = about("phases.generation_ns")
    }
    pass_share = has("reads.limit_bytes_per_s") && pass_ns > 0 ? pass_bytes / (pass_ns / 1e9) / about("reads.limit_bytes_per_s") : 0
    return pass_bytes > 0 && pass_ns > 0
}
function sum(list,   parts, n, i, total) {
    n = split(substr(list, 2, length(list) - 2), parts, ", ")
    for (i = 1; i <= n; i++) total += parts[i]
    return total + 0
}
function limit(   text, busy, waited) {
    text = "The distance from the memory limit is not known: "
    if (!pass()) return text "the bytes read were not counted."
    if (!has("reads.limit_bytes_per_s")) return text why("reads.limit_bytes_per_s") "."
    waited = sum(about("scheduling.waited_ns"))
    busy = waited > 0 ? waited / (waited + sum(about("scheduling.cpu_ns"))) : 0
    if (busy > 0.1) text = "The limit is not known, because the threads waited for a processor for " percent(busy) " of their time"
    else if (class("waiting") >= class(largest("")) && class("waiting") >= class("other")) text = "Waiting for other threads limits this work"
    else if (pass_share > 1.05) text = "The limit is not known, because one of two measurements was disturbed"
    else if (pass_share >= 0.7) text = "Memory bandwidth limits this work"
    else if (pass_share >= 0.4) text = "Memory bandwidth and computing together limit this work"
    else text = "Computing limits this work, not memory bandwidth"
    return text ": " pass_what " reads " bytes(pass_bytes) " of weights and cache in " time(pass_ns) ", " \
        rate(pass_bytes / (pass_ns / 1e9)) ", which is " percent(pass_share) " of the " rate(about("reads.limit_bytes_per_s")) \
        " measured on this machine."
}
# Amdahl: what takes a share s of the time gives 1 / (1 - s) at most.
function next_step(   first, second, none, text) {
    first = largest("")
    none = class("other") > class("waiting") ? "other" : "waiting"
    if (class(none) > 0 && class(none) >= class(first))
        return (none == "waiting" ? "Waiting takes " : "Functions of no class take ") percent(class(none)) \
            ", more than any class of work, so these shares do not show what to improve" \
            (none == "waiting" ? "; record with --threads 1" : "") "."
    if (first == "") return ""
    text = "Without " first ", the largest class, the same work would take " percent(1 - class(first)) " of its processor time"
    if (class(first) < 1) text = text sprintf(" (at most %.1f times as fast)", 1 / (1 - class(first)))
    second = largest(first)
    if (second != "") text = text "; the next limit is " second " with " percent(class(second)) \
        sprintf(" (at most %.2f times as fast)", 1 / (1 - class(second)))
    return text "."
}
function change(   words, name) {
    if (ENVIRON["WHY"] != "") return "Not compared with an earlier recording: " ENVIRON["WHY"] "."
    if (ENVIRON["CHANGE"] == "") return "Since " ENVIRON["FOLDER"] ", the share of no function changed significantly."
    split(ENVIRON["CHANGE"], words, " ")
    name = ENVIRON["CHANGE"]
    sub(/^[^ ]* [^ ]* /, "", name)
    return "Since " ENVIRON["FOLDER"] ", the largest significant change is " name ", from " words[1] " % to " words[2] " % of the time."
}
function trust() {
    if (!has("agreement.samples")) return has("unavailable.agreement") ? "The samples were not compared with the profiler: " about("unavailable.agreement") "." : ""
    if (!has("agreement.agrees")) return "The samples were not compared with the profiler: " about("agreement.why") "."
    return "The samples " (about("agreement.agrees") == "true" ? "agree" : "disagree") " with the profiler's times (" \
        about("agreement.samples") " samples)" (about("agreement.agrees") == "true" ? "." : ", so do not rely on these shares.")
}

# ---- the page ----
function put_facts(   rows, n, i, row, key) {
    print "## What was recorded\n\n| | |\n|---|---|"
    n = split("fingerprint=fingerprint|recorded=created|model=model.name|sha256 of the model=model.sha256|tokenizer=workload.tokenizer" \
        "|prompt=workload.prompt|tokens of the prompt=workload.prompt_tokens|tokens generated=workload.n_predict" \
        "|sha256 of the token ids=workload.ids_sha256|repetitions of each run=workload.repetitions|seed=workload.seed" \
        "|threads=workload.threads|instruction set=workload.isa" \
        "|tokens decoded one at a time=phases.tokens" \
        "|one generation=phases.generation_ns" \
        "|weights and cache read for the prompt=reads.prompt_bytes|weights and cache read for such a token=reads.token_bytes" \
        "|read bandwidth, measured here=reads.limit_bytes_per_s|version=program.version" \
        "|built from commit=program.commit|with changes=program.dirty|compiler=program.compiler|flags=program.flags" \
        "|sha256 of the program=program.binary_sha256|repository branch=git.branch" \
        "|processor=machine.cpu_model|usable hardware threads=machine.cpus_usable|machine=machine.label" \
        "|virtual machine=machine.hypervisor|architecture=machine.arch|L2 cache=machine.cache_l2_bytes" \
        "|L3 cache=machine.cache_l3_bytes|memory=machine.memory_bytes|kernel=machine.kernel|frequency governor=machine.governor" \
        "|load average=machine.load_milli|CPUs used by other processes=others.used_cpus|sampler=sampler.tier" \
        "|sampling period, requested=sampler.asked_period_ns|sampling period, delivered=sampler.delivered_period_ns" \
        "|samples delivered=sampler.delivered_share|lost samples=sampler.lost" \
        "|processor time=sampler.cpu_ns" \
        "|wall-clock time=sampler.wall_ns|samples=quality.samples|samples outside the runs (not counted)=quality.outside" \
        "|complete stacks=quality.rooted_share|stacks unwound by tables=quality.unwound_share" \
        "|samples in unknown functions=quality.leaf_unknown_share|addresses without a name=quality.addresses_unknown_share" \
        , rows, "|")
    for (i = 1; i <= n; i++) {
        split(rows[i], row, "=")
        print "| " row[1] " | " (has(row[2]) ? value(row[2]) : "not known: " code(why(row[2]))) " |"
    }
    for (key in fact)
        if (sub(/^about\.sampler\.refused\./, "", key)) print "| unavailable: " code(key) " | " value("sampler.refused." key) " |"
}
function put_classes(   list, n, i) {
    print "\n## Functions\n\n| class | share |\n|---|---:|"
    n = split("quantisation|matrix multiplication|memory|system|attention|norms and activations|threads|waiting|other", list, "|")
    for (i = 1; i <= n; i++)
        if (class(list[i]) > 0) printf "| %s | %.2f %% |\n", list[i], 100 * class(list[i])
    print "\nIn the table below, inlined functions count towards their callers (`bn-flamegraph text --merge-inlined`).\n"
}
# The time of one decoded token by parts: in the timing document and here.
function put_timing(   file, line, cells, median, text, parts, row, n, i, there) {
    file = ENVIRON["TIMING"]
    while ((getline line <file) > 0) {
        text = text line "\n"
        split(line, cells, " *[|] *")
        median[cells[2]] = cells[3]
    }
    close(file)
    printf "\n## Compared with the timing document\n\n%s", code(file)
    why_not = text == "" ? "it cannot be read" : !index(text, "sha256 " about("model.sha256")) ? "it was measured with another model" : \
        !index(text, "| kernels | " about("workload.isa") ",") ? "it was measured with another instruction set" : \
        !index(text, "threads: " about("workload.threads") " ") ? "it was measured with another number of threads" : ""
    if (why_not != "") print ": not compared: " code(why_not) "."
    if (!has("phases.tokens")) { if (why_not == "") print ": this recording has no token that was decoded alone."; return }
    if (why_not != "") delete median
    print (why_not != "" ? "" : ": time of one token in decoding.\n") "\n| part | timing document | this recording |\n|---|---:|---:|"
    n = split("embedding=embed=embed_ns|layers and last norm=layers=forward_ns|head=head=head_ns|sampling=sample=sample_ns", parts, "|")
    for (i = 1; i <= n; i++) {
        split(parts[i], row, "=")
        there = median[row[2]] + (row[2] == "layers" ? median["last norm"] : row[2] == "head" ? median["bounds of the head"] : 0)
        print "| " row[1] " | " (there > 0 ? time(there * 1000) : "-") " | " (has("phases." row[3]) ? time(about("phases." row[3])) : "-") " |"
    }
}
function quoted(text) {
    gsub(/'/, "'\\''", text)
    return text ~ /^[A-Za-z0-9_.\/+=-]+$/ ? text : "'" text "'"
}
function put_row(   model, first) {
    model = about("model.name")
    sub(/^.*\//, "", model)
    first = largest("")
    if (class("waiting") > class(first)) first = "waiting"
    if (class("other") > class(first)) first = "other"
    pass()
    printf "| [%s](%s.svg) | [page](%s.md) | [stacks](%s.json) | ", ENVIRON["NAME"], ENVIRON["NAME"], ENVIRON["NAME"], ENVIRON["NAME"]
    print code(model) " | " code(about("workload.isa")) " | " about("workload.threads") " | " code(about("workload.prompt")) " | " \
        (pass_ns > 0 ? time(pass_ns) : "-") " | " (pass_share > 0 ? percent(pass_share) : "-") " | " \
        sprintf("%s %.2f %%", first, 100 * class(first)) " | " code(about("created")) " | " code(about("program.commit")) " | " \
        code(about("machine.cpu_model")) " | " code(about("sampler.tier")) " | `" substr(about("fingerprint"), 1, 12) "` |"
}
END {
    if (ENVIRON["MODE"] == "row") put_row()
    if (ENVIRON["MODE"] == "shares") print shares()
    if (ENVIRON["MODE"] == "shows" || ENVIRON["MODE"] == "page") {
        if (ENVIRON["MODE"] == "page") mark = "- "
        n = 0
        sentence[++n] = shares(); sentence[++n] = limit(); sentence[++n] = next_step(); sentence[++n] = change(); sentence[++n] = trust()
    }
    if (ENVIRON["MODE"] == "shows")
        for (i = 1; i <= n; i++) if (sentence[i] != "") print sentence[i]
    if (ENVIRON["MODE"] == "page") {
        print "## What this shows\n"
        for (i = 1; i <= n; i++) if (sentence[i] != "") print "- " escaped(sentence[i])
        print ""
        put_facts()
        put_classes()
    }
    if (ENVIRON["MODE"] == "timing") put_timing()
    if (ENVIRON["MODE"] == "again") print "    bn-flamegraph record -m " quoted(about("model.name")) " --isa " about("workload.isa") " -t " \
        about("workload.threads") " -p " quoted(about("workload.prompt")) " -n " about("workload.n_predict") " -r " fact["runs"] \
        " -o " ENVIRON["NAME"] ".json"
}
