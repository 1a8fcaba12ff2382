/* SPDX-License-Identifier: MIT
 *
 * lab/symbols: addresses of programs of every kind have the right names, replaced files have none, no server
 * is asked, and samples become stacks.
 */
#define _GNU_SOURCE
#include "tests/unit/stacks/known_program.h"
TEST(programs_of_every_kind_have_names)
{
    static const char *const KINDS[] = {"pie", "fixed", "static"};
    for (size_t i = 0; i < 3; i++) {
        struct seen s;
        char path[1000];
        snprintf(path, sizeof path, "%s/%s", built, KINDS[i]);
        run_program(&s, path, NULL);
        expect_names(&s, NULL, KINDS[i], true);
        bn_recording_release(&s.recording);
    }
}

/* ---- separate debugging files ---- */

static void read_build_id(const char *path, char id[41])
{
    char command[1200];
    snprintf(command, sizeof command, "readelf -n %s | sed -nE 's/.*Build ID: //p'", path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%40s", id), 1);
    pclose(f);
}

TEST(debugging_files_are_found_beside_by_folder_and_by_build_id)
{
    struct seen s;
    char path[200], id[41], debug[200];
    snprintf(path, sizeof path, "%s/prog", folder);
    snprintf(debug, sizeof debug, "%s/none:%s/debug", folder, folder);
    sh("cd %s && cp %s/pie prog && objcopy --only-keep-debug prog prog.debug && strip prog && "
       "objcopy --add-gnu-debuglink=prog.debug prog && mkdir -p .debug debug%s",
       folder, built, folder);
    read_build_id(path, id);
    run_program(&s, path, id);
    expect_names(&s, NULL, "prog", true);
    sh("mv %s/prog.debug %s/.debug/", folder, folder);
    expect_names(&s, NULL, "prog", true);
    sh("mv %s/.debug/prog.debug %s/debug%s/", folder, folder, folder);
    expect_names(&s, debug, "prog", true);
    sh("mkdir -p %s/debug/.build-id/%.2s && mv %s/debug%s/prog.debug %s/debug/.build-id/%.2s/%s.debug",
       folder, id, folder, folder, folder, id, id + 2);
    expect_names(&s, debug, "prog", true);

    /* One of another build is not believed, wherever it lies. */
    sh("cd %s && rm -r debug/.build-id && objcopy --only-keep-debug %s/fixed prog.debug", folder, built);
    bn_symbols *symbols = open_symbols(&s.recording, debug);
    size_t n;
    assert_string_equal(look(symbols, 7, s.at[0].address, &n)->name, "[prog]");
    bn_symbols_close(symbols);
    bn_recording_release(&s.recording);
}

TEST(without_build_ids_the_checksum_counts)
{
    struct seen s;
    const char *path = below("plain");
    size_t n;
    sh("cd %s && objcopy --remove-section=.note.gnu.build-id %s/pie plain 2>&1 && "
       "objcopy --only-keep-debug plain plain.debug && strip plain && "
       "objcopy --add-gnu-debuglink=plain.debug plain",
       folder, built);
    run_program(&s, path, NULL);
    expect_names(&s, NULL, "plain", true);
    sh("printf x >> %s/plain.debug", folder);
    bn_symbols *symbols = open_symbols(&s.recording, NULL);
    assert_string_equal(look(symbols, 7, s.at[0].address, &n)->name, "[plain]");
    bn_symbols_close(symbols);
    bn_recording_release(&s.recording);
}

TEST(files_that_are_not_those_that_ran_have_no_names)
{
    struct seen s;
    char path[200], id[41];
    size_t n;
    snprintf(path, sizeof path, "%s/replaced", folder);
    for (int i = 0; i < 4; i++) {
        sh("rm -rf %s && cp %s/pie %s", path, built, path);
        read_build_id(path, id);
        run_program(&s, path, id);
        if (i == 1) sh("rm %s && cp %s/static %s", path, built, path);
        if (i == 2) sh("rm %s", path);
        if (i == 3) sh("rm %s && mkfifo %s", path, path);
        bn_symbols *symbols = open_symbols(&s.recording, NULL);
        const struct bn_frame *f = look(symbols, 7, s.at[0].address, &n);
        assert_string_equal(f->name, i == 0 ? "same_aa" : "[replaced]");
        assert_int_equal(f->kind, i == 0 ? BN_FRAME_CODE : BN_FRAME_UNKNOWN);
        assert_int_equal(bn_symbols_counts(symbols).other_builds, i == 1 || i == 2);
        assert_int_equal(bn_symbols_counts(symbols).unknown, i != 0);
        bn_symbols_close(symbols);
        bn_recording_release(&s.recording);
    }
}

TEST(broken_files_have_no_names)
{
    struct seen s;
    const char *path = below("broken");
    uint32_t random = 1;
    for (int i = 0; i < 40; i++) {
        sh("cp %s/pie %s", built, path);
        run_program(&s, path, NULL);
        int fd = open(path, O_RDWR);
        assert_true(fd >= 0);
        off_t n_bytes = lseek(fd, 0, SEEK_END);
        for (int k = 0; k < 60; k++) {
            random = random * 1664525u + 1013904223u;
            /* The headers in front and at the end, or anything between. */
            off_t at = k % 3 == 0   ? 4 + random % 800
                       : k % 3 == 1 ? n_bytes - 1 - random % 2000
                                    : random % n_bytes;
            unsigned char byte = (unsigned char)(random >> 24);
            if (i > 0 && at >= 4) assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        }
        if (i % 8 == 7) assert_int_equal(ftruncate(fd, n_bytes * (i % 5) / 5), 0);
        close(fd);
        bn_symbols *symbols = open_symbols(&s.recording, NULL);
        size_t n;
        for (size_t k = 0; k < s.n; k++)
            look(symbols, 7, s.at[k].address, &n);
        bn_symbols_close(symbols);
        bn_recording_release(&s.recording);
    }
}

/* Paths that a process may have mapped, none of which can be read. */
TEST(files_of_other_kinds_have_no_names)
{
    static const char *const NAMES[] = {"fifo", "empty", "cut.elf", "insane.elf", "zero", "tty", "relative"};
    char path[200];
    size_t n;
    sh("cd %s && mkfifo fifo && : >empty && head -c 3000 %s/pie >cut.elf", folder, built);
    sh("cd %s && { head -c 64 %s/pie; head -c 4096 /dev/zero | tr '\\0' '\\377'; } >insane.elf", folder,
       built);
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++) {
        bn_recording r = {0};
        struct bn_mapping m = {.pid = 7, .start = 0x100000, .end = 0x200000};
        const char *place = i < 4 ? folder : i < 6 ? "/dev" : "";
        snprintf(path, sizeof path, "%s%s%s", place, i < 6 ? "/" : "", NAMES[i]);
        must(bn_recording_add_mapping(&r, &m, path, NULL));
        bn_recording_finish(&r);
        bn_symbols *symbols = open_symbols(&r, NULL);
        const struct bn_frame *f = look(symbols, 7, 0x105000, &n);
        snprintf(path, sizeof path, "[%s]", NAMES[i]);
        assert_string_equal(f->name, path);
        bn_symbols_close(symbols);
        bn_recording_release(&r);
    }
}

/* Listens, and says by a byte that somebody came. */
static pid_t start_server(int *port, int said[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof address;
    int server = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(server, (struct sockaddr *)&address, n), 0);
    assert_int_equal(listen(server, 16), 0);
    assert_int_equal(getsockname(server, (struct sockaddr *)&address, &n), 0);
    *port = ntohs(address.sin_port);
    assert_int_equal(pipe2(said, O_NONBLOCK), 0);
    pid_t child = fork();
    while (child == 0) {
        int client = accept(server, NULL, NULL);
        if (write(said[1], "x", 1) != 1) _exit(1);
        close(client);
    }
    close(server);
    return child;
}

static int find_no_elf(Dwfl_Module *m, void **u, const char *n, Dwarf_Addr b, char **f, Elf **e)
{
    (void)m, (void)u, (void)n, (void)b, (void)f, (void)e;
    return -1;
}

TEST(no_server_is_asked)
{
    struct seen s;
    char path[200], text[200], byte;
    int port, said[2];
    size_t n;
    snprintf(path, sizeof path, "%s/alone", folder);
    sh("strip -o %s %s/pie", path, built);
    run_program(&s, path, NULL);
    pid_t server = start_server(&port, said);
    snprintf(text, sizeof text, "http://127.0.0.1:%d", port);
    setenv("DEBUGINFOD_URLS", text, 1);
    setenv("DEBUGINFOD_CACHE_PATH", folder, 1);
    setenv("DEBUGINFOD_TIMEOUT", "5", 1);

    bn_symbols *symbols = open_symbols(&s.recording, NULL);
    assert_string_equal(look(symbols, 7, s.at[0].address, &n)->name, "[alone]");
    for (size_t i = 0; i < s.recording.n_mappings; i++)
        look(symbols, 7, s.recording.mappings[i].start + 100, &n);
    bn_symbols_close(symbols);
    bool asked = read(said[0], &byte, 1) == 1;

    /* That it would have been noticed: what libdwfl does on its own. */
    setenv("DEBUGINFOD_URLS", text, 1);
    char *no_path = NULL;
    Dwarf_Addr bias;
    Dwfl_Callbacks usual = {find_no_elf, dwfl_standard_find_debuginfo, NULL, &no_path};
    Dwfl *dwfl = dwfl_begin(&usual);
    dwfl_report_begin(dwfl);
    Dwfl_Module *module = dwfl_report_elf(dwfl, "alone", path, -1, 0, true);
    dwfl_report_end(dwfl, NULL, NULL);
    assert_non_null(module);
    assert_null(dwfl_module_getdwarf(module, &bias));
    bool noticed = read(said[0], &byte, 1) == 1;
    dwfl_end(dwfl);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    close(said[0]);
    close(said[1]);
    unsetenv("DEBUGINFOD_URLS");
    bn_recording_release(&s.recording);
    assert_false(asked);
    void *client = dlopen("libdebuginfod.so.1", RTLD_LAZY);
    if (client == NULL) skip(); /* libdwfl asks by this library only */
    dlclose(client);
    assert_true(noticed);
}

TEST(libraries_the_vdso_and_other_memory)
{
    char path[1000];
    size_t n;
    snprintf(path, sizeof path, "%s/library.so", built);
    void *library = dlopen(path, RTLD_NOW);
    assert_non_null(library);
    uintptr_t (**hidden)(void) = dlsym(library, "library_code");
    assert_non_null(hidden);
    bn_recording recording = {0};
    uint32_t pid = (uint32_t)getpid();
    must(bn_recording_read_maps(&recording, NULL));
    const struct bn_mapping nameless = {.pid = pid, .start = 0x10000, .end = 0x20000};
    const struct bn_mapping heap = {.pid = pid, .start = 0x20000, .end = 0x30000};
    must(bn_recording_add_mapping(&recording, &nameless, "", NULL));
    must(bn_recording_add_mapping(&recording, &heap, "[heap]", NULL));
    bn_recording_finish(&recording);
    bn_symbols *symbols = open_symbols(&recording, NULL);
    const struct bn_frame *f = look(symbols, pid, (uintptr_t)*hidden + 1, &n);
    assert_string_equal(f->name, "hidden_in_library");
    assert_string_equal(f->module, "library.so");
    assert_has(f->file, "library.c");
    f = look(symbols, pid, (uintptr_t)qsort, &n);
    assert_has(f->name, "qsort"); /* a sanitizer has one of its own */
    assert_string_equal(look(symbols, pid, 0x10010, &n)->name, "[unknown]");
    assert_string_equal(look(symbols, pid, 0x20010, &n)->name, "[heap]");
    assert_int_equal(bn_symbols_counts(symbols).other_builds, 0);

    /* Each function of the vdso by its own symbol table. */
    char *image = (char *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
    Elf64_Ehdr header;
    size_t found = 0;
    if (image == NULL) skip();
    memcpy(&header, image, sizeof header);
    Elf *elf = elf_memory(image, header.e_shoff + (size_t)header.e_shnum * header.e_shentsize);
    for (Elf_Scn *scn = elf_nextscn(elf, NULL); scn != NULL; scn = elf_nextscn(elf, scn)) {
        GElf_Shdr section;
        GElf_Sym symbol;
        assert_non_null(gelf_getshdr(scn, &section));
        for (int i = 0; section.sh_type == SHT_DYNSYM && gelf_getsym(elf_getdata(scn, NULL), i, &symbol);
             i++) {
            const char *name = elf_strptr(elf, section.sh_link, symbol.st_name);
            if (strstr(name, "clock_gettime") == NULL) continue;
            f = look(symbols, pid, (uintptr_t)image + symbol.st_value + 1, &n);
            assert_has(f->name, "clock_gettime");
            assert_string_equal(f->module, "[vdso]");
            found++;
        }
    }
    assert_true(found > 0);
    elf_end(elf);
    bn_symbols_close(symbols);
    bn_recording_release(&recording);
    dlclose(library);
}

TEST(an_address_is_what_it_was_at_the_time)
{
    struct seen s;
    char path[1000];
    const struct bn_frame *f;
    size_t n;
    snprintf(path, sizeof path, "%s/fixed", built);
    run_program(&s, path, NULL);
    struct bn_mapping other = {.time_ns = 100, .pid = 7, .start = 0x400000, .end = 0x800000};
    must(bn_recording_add_mapping(&s.recording, &other, "", NULL));
    bn_recording_finish(&s.recording);
    bn_symbols *symbols = open_symbols(&s.recording, NULL);
    static const uint64_t TIMES[] = {5, 100, 99, 1000, 0};
    for (size_t i = 0; i < 5; i++) {
        must(bn_symbols_at(symbols, 7, s.at[0].address, TIMES[i], false, false, &f, &n, NULL));
        assert_string_equal(f->name, TIMES[i] < 100 ? "same_aa" : "[unknown]");
    }
    assert_int_equal(bn_symbols_counts(symbols).addresses, 2);
    /* A return address that is the next function's first one means the one in front. */
    must(bn_symbols_at(symbols, 7, s.at[1].address, 5, true, false, &f, &n, NULL));
    assert_string_equal(f->name, "same_aa");
    bn_symbols_close(symbols);
    bn_recording_release(&s.recording);
}

TEST(kernel_symbols_are_read_when_they_are_shown)
{
    const char *path = below("kallsyms");
    const struct bn_kernel_symbol *s;
    struct bn_kernel_names kernel = {0};
    sh("printf 'ffffffff81000200 t second\\nffffffff81000000 T longer\\nffffffff81000000 T first\\n"
       "ffffffff81000100 D data\\nnonsense\\nffffffffa0000000 t of_module\\t[nf_tables]\\n' > %s",
       path);
    must(bn_kernel_symbol(&kernel, path, 0xffffffff81000150, &s, NULL));
    assert_string_equal(s->name, "first");
    assert_string_equal(s->module, "");
    must(bn_kernel_symbol(&kernel, path, 0xffffffffa0000001, &s, NULL));
    assert_string_equal(s->name, "of_module");
    assert_string_equal(s->module, "nf_tables");
    must(bn_kernel_symbol(&kernel, path, 0xffffffff80000000, &s, NULL));
    assert_null(s);
    bn_kernel_release(&kernel);
    sh("sed -i 's/^f[0-9a-f]*/0000000000000000/' %s", path);
    must(bn_kernel_symbol(&kernel, path, 0xffffffff81000150, &s, NULL));
    assert_null(s);
    bn_kernel_release(&kernel);
}

static bn_status tag_by_weight(void *user, const struct bn_sample *sample, bn_stacks *stacks, uint32_t *node,
                               bn_error *e)
{
    (void)user;
    return bn_stacks_push_name(stacks, node, BN_FRAME_PHASE, sample->weight > 2 ? "decode" : "prefill", e);
}

static void add(bn_recording *r, uint64_t time, uint32_t tid, uint64_t weight, const uint64_t *chain,
                uint16_t n, uint16_t n_system)
{
    struct bn_sample s = {
        .time_ns = time, .weight = weight, .pid = 7, .tid = tid, .n_chain = n, .n_system = n_system};
    must(bn_recording_add_sample(r, &s, chain, NULL, NULL, NULL));
}

/* The node at the end of a path of names and kinds. */
static uint32_t walk(const bn_stacks *stacks, const char *path)
{
    static const char LETTERS[] = "ptflbscixu"; /* of kinds, in their order */
    uint32_t node = BN_STACKS_ROOT;
    char name[100], kind;
    for (int n; sscanf(path, "%c:%99[^;]%n", &kind, name, &n) == 2; path += n + (path[n] == ';'))
        if ((node = bn_stacks_child(stacks, node, (enum bn_frame_kind)(strchr(LETTERS, kind) - LETTERS),
                                    name)) == BN_STACKS_NONE)
            fail_msg("no '%s'", path);
    return node;
}

/* Of four threads, before, in, between and after two windows. */
static void record_samples(struct seen *s)
{
    bn_recording *r = &s->recording;
    uint64_t main_at = s->at[12].address + 1, leaf_at = s->at[0].address, middle_at = s->at[14].address;
    assert_string_equal(s->at[12].name, "main");
    /* No function of the operating system lies there. */
    const uint64_t deep[] = {middle_at, main_at}, kernel[] = {1, 2, leaf_at, main_at};
    const uint64_t lost[] = {0x1234};
    must(bn_recording_add_thread(r, 1, 7, 7, "prog", NULL));
    must(bn_recording_add_thread(r, 2, 7, 9, "prog", NULL));
    must(bn_recording_add_thread(r, 3, 7, 8, "prog", NULL));
    must(bn_recording_add_thread(r, 3, 7, 10, "prog", NULL)); /* renamed before it is seen */
    must(bn_recording_add_thread(r, 4, 7, 10, "worker", NULL));
    must(bn_recording_add_thread(r, 60, 7, 7, "later", NULL));
    add(r, 9, 7, 1, deep, 2, 0); /* before the first window */
    add(r, 10, 7, 1, deep, 2, 0);
    add(r, 11, 8, 2, deep, 2, 0);
    add(r, 12, 9, 3, deep, 2, 0);
    add(r, 13, 10, 4, kernel, 4, 2);
    add(r, 20, 7, 5, deep, 2, 0); /* between the windows */
    add(r, 30, 7, 6, lost, 1, 0);
    add(r, 31, 7, 7, NULL, 0, 0);
    add(r, 61, 7, 8, deep, 2, 0);
    bn_recording_finish(r);
}

TEST(samples_become_stacks)
{
    struct seen s;
    char path[1000];
    snprintf(path, sizeof path, "%s/fixed", built);
    run_program(&s, path, NULL);
    bn_recording *r = &s.recording;
    record_samples(&s);
    bn_stacks *stacks;
    must(bn_stacks_open(&stacks, "ns", "cpu", NULL));
    bn_symbols *symbols = open_symbols(r, NULL);
    const struct bn_record_window windows[] = {{10, 20}, {30, 100}};
    struct bn_resolve_options options = {.windows = windows, .n_windows = 2, .tag = tag_by_weight};
    struct bn_stack_quality quality = {0};
    refused(bn_resolve(stacks, r, symbols, &options, &quality, NULL), BN_ERR_ARG);
    must(bn_stacks_add_run(stacks, NULL));
    must(bn_resolve(stacks, r, symbols, &options, &quality, NULL));
#define SELF(path, run) bn_stacks_self(stacks, walk(stacks, path), run)
    assert_true(SELF("p:prog;t:prog;f:prefill;c:main;c:outer;i:middle", 0) == 1);
    assert_true(SELF("p:prog;t:prog 2;f:decode;c:main;c:outer;i:middle", 0) == 3);
    assert_true(SELF("p:prog;t:prog 3;f:prefill;c:main;c:outer;i:middle", 0) == 2);
    assert_true(SELF("p:prog;t:worker;f:decode;c:main;c:same_aa;x:[kernel];x:[kernel]", 0) == 4);
    uint32_t worker = walk(stacks, "p:prog;t:worker;f:decode;c:main;c:same_aa");
    assert_int_equal(bn_stacks_frame(stacks, worker + 1)->kind, BN_FRAME_SYSTEM);
    assert_true(SELF("p:prog;t:prog;f:decode;u:[unknown]", 1) == 13);
    assert_true(SELF("p:later;t:later;f:decode;c:main;c:outer;i:middle", 1) == 8);
    assert_int_equal(quality.samples, 7);
    assert_int_equal(quality.outside, 2);
    assert_int_equal(quality.rooted, 5);
    assert_int_equal(quality.leaf_unknown, 2);
    assert_int_equal(quality.cut + quality.unwound, 0);

    bn_json *document = bn_json_new_object();
    double share;
    bn_stack_quality_put(document, &quality);
    assert_true(bn_json_number(bn_json_path(document, "quality.rooted_share"), &share));
    assert_true(share == 5.0 / 7.0);
    bn_stack_quality_put(document, &(struct bn_stack_quality){0});
    assert_int_equal(bn_json_kind(bn_json_path(document, "quality.rooted_share")), BN_JSON_NULL);
    assert_non_null(bn_json_path(document, "quality.unavailable.rooted_share"));
    bn_json_free(document);
    bn_symbols_close(symbols);
    bn_stacks_close(stacks);
    bn_recording_release(r);
}

int main(int argc, char **argv)
{
    (void)argc;
    char self[4096];
    if (realpath(argv[0], self) == NULL) return 1;
    *strrchr(self, '/') = '\0';
    snprintf(built, sizeof built, "%.850s/../../symbols", self);
    return unit_run();
}

GROUP(make_folder, remove_folder)
