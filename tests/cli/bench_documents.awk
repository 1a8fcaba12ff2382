# Documents as bn-bench writes them, out of a generator of random numbers: awk -v what=run|many|compare|kernels|trend|profile -v n=SAMPLES
# -f tests/cli/bench_documents.awk. The same numbers each time; nothing in them was measured.
function uniform() { state = (state * 16807) % 2147483647; return state / 2147483647 }
function normal() { return sqrt(-2 * log(uniform())) * cos(6.283185307 * uniform()) }
function head(command) {
    printf "{\"schema\": \"bn.bench/1\", \"command\": \"%s\", \"created\": \"2026-01-02T03:04:05Z\",", command
    printf " \"program\": {\"version\": \"0.1.0\", \"commit\": \"0123456789abcdef0123456789abcdef01234567\", \"dirty\": false, \"compiler\": \"gcc 12\"},"
    printf " \"machine\": {\"os\": \"Linux\", \"kernel\": \"6.1\", \"arch\": \"x86_64\", \"cpu_model\": \"Synthetic 9000\", \"cpus_online\": 2,"
    printf " \"cpus_usable\": 2, \"load_milli\": [100, 200, 300], \"memory_bytes\": 8589934592}"
}
# Around `middle` with that relative spread; kind "drift" rises by a tenth, "spikes" has outliers, "whole" has whole numbers.
function series(test, metric, unit, better, count, middle, spread, kind,    i, x) {
    printf "%s{\"test\": \"%s\", \"metric\": \"%s\", \"unit\": \"%s\", \"better\": \"%s\", \"exact\": %s, \"warmup\": 0, \"samples\": [", comma, test, metric, unit,
        better, kind == "exact" ? "true" : "false"
    for (i = 0; i < count; i++) {
        x = kind == "exact" ? middle : middle * (1 + spread * normal())
        if (kind == "drift") x *= 1 + 0.1 * i / count
        if (kind == "spikes" && i % 17 == 5) x *= 1.25 + uniform()
        printf kind == "whole" ? "%s%.0f" : "%s%.3f", i ? "," : "", x
    }
    printf "]}"
    comma = ",\n"
}
function comparison(test, metric, verdict, reason, change, low, high, band, needed) {
    printf "%s{\"test\": \"%s\", \"metric\": \"%s\", \"unit\": \"ns\", \"better\": \"lower\", \"exact\": false,", comma, test, metric
    printf " \"a\": {\"n\": 20, \"median\": 22937115.5}, \"b\": {\"n\": 20, \"median\": %.1f}, \"verdict\": \"%s\", \"reason\": \"%s\",", 22937115.5 * (1 + change), verdict, reason
    printf " \"change\": %g, \"low\": %g, \"high\": %g, \"p\": %s, \"q\": 0.002, \"agreement\": 0.95, \"band\": %g, \"mde\": 0.007,", change, low, high,
        verdict == "REGRESSED" ? "0.00000191" : "0.04", band
    printf " \"n\": 20, \"n_needed\": %d, \"severity\": \"%s\"}", needed, verdict == "REGRESSED" ? "warning" : "none"
    comma = ",\n"
}
# A test of a kernel, whose name is that of its series.
function kernel(name, shape, threads, bytes, macs, ns, limit, share) {
    printf "%s{\"name\": \"%s %s t=%d\", \"verdict\": \"valid\", \"kernel\": \"%s\", \"isa\": \"avx2\", \"threads\": %d, \"shape\": \"%s\", \"set_bytes\": 67108864,", comma,
        name, shape, threads, name, threads, shape
    printf " \"bytes\": %d, \"macs\": %d, \"limit\": \"%s\", \"limit_ns\": %g}", bytes, macs, limit, ns * share
    times[n_times++] = name " " shape " t=" threads
    median[n_times - 1] = ns
    comma = ",\n"
}
BEGIN {
    state = 42
    if (n == 0) n = 40
    if (what == "run") {
        head("run")
        printf ", \"settings\": {\"reps\": %d, \"seed\": 42}, \"tests\": [{\"name\": \"decode n=4 d=0 t=1\", \"verdict\": \"valid\", \"threads\": 1}], \"series\": [\n", 6
        printf "{\"test\": \"decode n=4 d=0 t=1\", \"metric\": \"ns_per_token\", \"unit\": \"ns\", \"better\": \"lower\", \"exact\": false, \"warmup\": 3, \"samples\": ["
        for (i = 0; i < 9; i++) printf "%s%d", i ? ", " : "", 1000000 * (i < 3 ? 1.4 - 0.1 * i : 1 + 0.01 * i)
        printf "]}"
        comma = ",\n"
        series("decode n=32 d=0 t=2", "ns_per_token", "ns", "lower", n, 22937115, 0.01, "spikes")
        series("decode n=32 d=0 t=2", "tokens_per_second", "1/s", "higher", n, 43.6, 0.01, "")
        series("prompt n=512 t=2", "first_token_ns", "ns", "lower", n, 3.1e9, 0.004, "drift")
        series("add 2560 t=1", "ns_per_call", "ns", "lower", n, 0.4, 0.05, "")
        series("process", "peak_rss_bytes", "bytes", "lower", 1, 761170000, 0, "exact")
        print "]}"
    } else if (what == "many") {
        head("run")
        printf ", \"series\": [\n"
        series("decode n=100000", "token_ns", "ns", "lower", n, 22937115, 0.02, "whole")
        print "]}"
    } else if (what == "wide") {
        head("run")
        printf ", \"series\": [\n"
        for (w = 0; w < n / 50; w++) series("test number " w, "token_ns", "ns", "lower", 50, 22937115, 0.02, "whole")
        print "]}"
    } else if (what == "compare") {
        head("ab")
        printf ", \"settings\": {\"rounds\": 20, \"margin\": 0.01}, \"comparisons\": [\n"
        comparison("decode n=32 d=0 t=2", "ns_per_token", "REGRESSED", "all of the interval is above 1.0 %", 0.053, 0.041, 0.066, 0.004, 0)
        comparison("decode n=32 d=1024 t=2", "ns_per_token", "SAME", "the interval is within 1.0 %", 0.001, -0.004, 0.006, 0.004, 0)
        comparison("prompt n=512 t=2", "first_token_ns", "IMPROVED", "all of the interval is below -1.0 %", -0.081, -0.093, -0.07, 0.006, 0)
        comparison("prompt n=128 t=1", "first_token_ns", "INCONCLUSIVE", "the interval reaches beyond 1.0 %", 0.012, -0.011, 0.034, 0.009, 96)
        print "]}"
    } else if (what == "kernels") {
        head("kernels")
        printf ", \"limits\": [{\"kind\": \"read\", \"threads\": 1, \"set_bytes\": 268435456, \"bytes_per_second\": 36.9e9},"
        printf " {\"kind\": \"read\", \"threads\": 1, \"set_bytes\": 16384, \"bytes_per_second\": 342e9},"
        printf " {\"kind\": \"int8\", \"threads\": 1, \"isa\": \"avx2\", \"instruction\": \"vpdpbusd\", \"macs_per_second\": 515.2e9},"
        printf " {\"kind\": \"float\", \"threads\": 1, \"isa\": \"avx2\", \"instruction\": \"vfmadd\", \"macs_per_second\": 119e9}], \"tests\": [\n"
        kernel("ternary_gemv_avx2", "6912x2560", 1, 4423680, 17694720, 131000, "memory", 0.91)
        kernel("ternary_gemm_avx2", "6912x2560 n=128", 1, 4423680, 2264924160, 5342753, "arithmetic", 0.82)
        kernel("i8_gemm_avx2", "128256x2560", 1, 328335360, 656670720, 9480000, "memory", 0.94)
        kernel("attn_scores_avx2", "ctx=4096", 1, 5242880, 2621440, 160000, "memory", 0.44)
        kernel("rmsnorm_avx2", "2560", 1, 10240, 0, 900, "cache", 0.3)
        printf "], \"series\": [\n"
        comma = ""
        for (k = 0; k < n_times; k++) series(times[k], "ns_per_call", "ns", "lower", 12, median[k], 0.03, "")
        print "]}"
    } else if (what == "trend") {
        printf "{\"schema\": \"bn.bench/1\", \"command\": \"trend\", \"histories\": [{\"test\": \"decode n=32 d=0 t=2\", \"metric\": \"ns_per_token\", \"unit\": \"ns\", \"better\": \"lower\", \"points\": [\n"
        for (r = 0; r < 16; r++) {
            level = 22937115 * (r < 9 ? 1 : 1.08) * (1 + 0.001 * (r % 3))
            printf "%s{\"created\": \"2026-01-%02dT00:00:00Z\", \"commit\": \"%08x%032x\", \"median\": %d, \"low\": %d, \"high\": %d}", r ? ",\n" : "", r + 1, 2862933555 + 86028157 * r, r, level, level * 0.99, level * 1.01
        }
        print "], \"changes\": [{\"at\": 9, \"change\": 0.08}]}]}"
    } else if (what == "profile") {
        printf "{\"schema\": \"bn.profile/1\", \"created\": \"2026-01-02T03:04:05Z\", \"profile\": {\"wall_ns\": 1000000000, \"n_threads\": 2, \"summary\": {\"coverage\": 0.97, \"bricks\": [\n"
        split("FfnUp FfnGate FfnDown LmHead AttnQ AttnOut AttnScores BarrierWait RmsNorm Quantise Embed", name, " ")
        split("ffn ffn ffn head attention attention attention other norm other embedding", category, " ")
        split("412000000 398000000 405000000 310000000 101000000 99000000 71000000 64000000 31000000 22000000 2000000", ns, " ")
        for (b = 1; b <= 11; b++) printf "%s{\"name\": \"%s\", \"category\": \"%s\", \"count\": %d, \"exclusive_ns\": %d}", (b == 1 ? "" : ",\n"), name[b], category[b], 960, ns[b]
        print "], \"threads\": [{\"unattributed_ns\": 40000000}, {\"unattributed_ns\": 45000000}]}}}"
    }
}
