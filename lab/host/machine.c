/* SPDX-License-Identifier: MIT
 *
 * Reads the facts of this machine. Linux: /proc/cpuinfo, /proc/meminfo, /proc/loadavg, the cpufreq and cache
 * folders of the first core, and the control group's quota (version 2).
 */
#define _GNU_SOURCE
#include "lab/host/machine.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "lab/kit/put_counts.h"

#define MAX_FILE (8u << 20) /* cpuinfo has some 1.5 KB a core */

/* As /proc/cpuinfo spells them, x86 and ARM. */
static const char *const FLAGS[] = {
    "ssse3",   "sse4_1",   "avx",      "avx2",     "fma",         "f16c",        "bmi2",        "avx_vnni",
    "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni", "avx512_bf16", "avx512_vbmi", "amx_int8",
    "sha_ni",  "asimd",    "asimddp",  "asimdhp",  "i8mm",        "bf16",        "sve",         "sve2",
};
_Static_assert(BN_ARRAY_LEN(FLAGS) <= BN_MACHINE_FLAGS, "room for every flag");

/* The text of a file, released by bn_buf_release; false when it cannot be read. */
static bool read_text(const char *path, struct bn_buf *buf)
{
    *buf = (struct bn_buf){.max = MAX_FILE};
    if (bn_file_read(path, buf, NULL) == BN_OK && !buf->failed && buf->data != NULL) return true;
    bn_buf_release(buf);
    return false;
}

bool bn_machine_line(const char *path, char *out, size_t room)
{
    struct bn_buf text;
    if (!read_text(path, &text)) return false;
    snprintf(out, room, "%.*s", (int)strcspn(text.data, "\n"), text.data);
    bn_buf_release(&text);
    return true;
}

/* The value of the first line "name<blanks>:<blanks>value" from *text on; *text moves to the line after it.
 */
static bool next_field(const char **text, const char *name, struct bn_str *value)
{
    size_t n_name = strlen(name);
    for (const char *line = *text; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        const char *after = line[n] == '\n' ? line + n + 1 : line + n;
        size_t blanks = strncmp(line, name, n_name) == 0 ? strspn(line + n_name, " \t") : 0;
        if (strncmp(line, name, n_name) == 0 && line[n_name + blanks] == ':') {
            const char *begin = line + n_name + blanks + 1;
            begin += strspn(begin, " \t");
            *value = (struct bn_str){begin, begin < line + n ? (size_t)(line + n - begin) : 0};
            *text = after;
            return true;
        }
        line = after;
    }
    return false;
}

static bool field(const char *text, const char *name, struct bn_str *value)
{
    return next_field(&text, name, value);
}

static bool has_word(struct bn_str text, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= text.len; i++) {
        bool begins = i == 0 || text.ptr[i - 1] == ' ';
        bool ends = i + n == text.len || text.ptr[i + n] == ' ';
        if (begins && ends && memcmp(text.ptr + i, word, n) == 0) return true;
    }
    return false;
}

static uint64_t leading_u64(struct bn_str text)
{
    uint64_t value = 0;
    for (size_t i = 0; i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9' && value < UINT64_MAX / 20;
         i++)
        value = value * 10 + (uint64_t)(text.ptr[i] - '0');
    return value;
}

/* Distinct pairs of socket and core; 0 when the file does not name them. */
static uint32_t count_cores(const char *text)
{
    uint32_t n = 0;
    struct bn_str socket, core;
    uint64_t *seen = bn_alloc(4096, sizeof *seen);
    while (seen != NULL && next_field(&text, "physical id", &socket) && next_field(&text, "core id", &core)) {
        uint64_t id = leading_u64(socket) << 32 | leading_u64(core);
        uint32_t i = 0;
        while (i < n && seen[i] != id)
            i++;
        if (i == n && n < 4096) seen[n++] = id;
    }
    bn_free(seen);
    return n;
}

static void copy_field(const char *text, const char *name, char *out, size_t room)
{
    struct bn_str value;
    if (field(text, name, &value)) snprintf(out, room, "%.*s", (int)value.len, value.ptr);
}

static void read_cpu(struct bn_machine *m)
{
    struct bn_buf text;
    struct bn_str flags;
    if (!read_text("/proc/cpuinfo", &text)) return;
    copy_field(text.data, "model name", m->cpu_model, sizeof m->cpu_model);
    copy_field(text.data, "microcode", m->microcode, sizeof m->microcode);
    m->cores = count_cores(text.data);
    if (field(text.data, "flags", &flags)) { /* x86 */
        m->hypervisor_known = true;
        m->hypervisor = has_word(flags, "hypervisor");
    } else if (!field(text.data, "Features", &flags)) {
        flags.len = 0;
    }
    for (size_t i = 0; i < BN_ARRAY_LEN(FLAGS) && flags.len > 0; i++)
        if (has_word(flags, FLAGS[i])) m->flags[m->n_flags++] = FLAGS[i];
    bn_buf_release(&text);
}

static uint64_t cache_bytes(unsigned level)
{
    uint64_t found = 0;
    for (unsigned i = 0; i < 8; i++) {
        char path[96], text[32];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%u/level", i);
        if (!bn_machine_line(path, text, sizeof text) || strtoul(text, NULL, 10) != level) continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%u/size", i);
        if (!bn_machine_line(path, text, sizeof text)) continue;
        char *unit;
        uint64_t n = strtoull(text, &unit, 10);
        found = *unit == 'K' ? n << 10 : *unit == 'M' ? n << 20 : n;
    }
    return found;
}

/* A field in kB of a file, in bytes; 0: it has none. */
static uint64_t status_bytes(const char *path, const char *name)
{
    struct bn_buf text;
    struct bn_str value;
    uint64_t bytes = 0;
    if (!read_text(path, &text)) return 0;
    if (field(text.data, name, &value)) bytes = leading_u64(value) * 1024;
    bn_buf_release(&text);
    return bytes;
}

static void read_memory(struct bn_machine *m)
{
    m->memory_bytes = status_bytes("/proc/meminfo", "MemTotal");
    m->cache_l2_bytes = cache_bytes(2);
    m->cache_l3_bytes = cache_bytes(3);
    long page = sysconf(_SC_PAGESIZE);
    if (page > 0) m->page_bytes = (uint32_t)page;
}

static void read_load(struct bn_machine *m)
{
    char line[128];
    double load[3];
    if (!bn_machine_line("/proc/loadavg", line, sizeof line)) return;
    if (sscanf(line, "%lf %lf %lf", &load[0], &load[1], &load[2]) != 3) return;
    m->load_known = true;
    for (size_t i = 0; i < 3; i++)
        m->load_milli[i] = (uint32_t)(load[i] * 1000 + 0.5);
}

/* The line "0::/path"; a quota applies to all groups below, and the tightest counts. */
static void read_quotas(struct bn_machine *m)
{
    char group[256], path[512], line[64], *end;
    if (!bn_machine_line("/proc/self/cgroup", group, sizeof group) || strncmp(group, "0::/", 4) != 0) return;
    for (char *slash = group + strlen(group); slash != NULL; slash = strrchr(group + 3, '/')) {
        *slash = '\0';
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group + 3);
        if (!bn_machine_line(path, line, sizeof line)) continue;
        uint64_t quota = strtoull(line, &end, 10); /* "max" gives 0 */
        uint64_t period = quota > 0 ? strtoull(end, NULL, 10) : 0;
        m->quota_known = true;
        if (period == 0 ||
            (m->quota_us > 0 && (double)quota / (double)period >= (double)m->quota_us / (double)m->period_us))
            continue;
        m->quota_us = quota;
        m->period_us = period;
    }
}

/* ---- disks ---- */

void bn_disk_nearest(char there[PATH_MAX], const char *folder)
{
    snprintf(there, PATH_MAX, "%s", folder);
    while (access(there, F_OK) != 0) {
        char *slash = strrchr(there, '/');
        if (slash == NULL || slash == there) {
            snprintf(there, PATH_MAX, "%s", slash == NULL ? "." : "/");
            return;
        }
        *slash = '\0';
    }
}

bool bn_disk_free(uint64_t *bytes, char there[PATH_MAX], const char *folder)
{
    struct statvfs fs;
    bn_disk_nearest(there, folder);
    if (statvfs(there, &fs) != 0) return false;
    *bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    return true;
}

/* ---- facts ---- */

void bn_machine_read(struct bn_machine *machine)
{
    *machine = (struct bn_machine){0};
    struct utsname name;
    if (uname(&name) == 0) {
        snprintf(machine->os, sizeof machine->os, "%.31s", name.sysname);
        snprintf(machine->kernel, sizeof machine->kernel, "%.127s", name.release);
        snprintf(machine->arch, sizeof machine->arch, "%.31s", name.machine);
    }
    read_cpu(machine);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (online > 0) machine->cpus_online = (uint32_t)online;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) machine->cpus_usable = (uint32_t)CPU_COUNT(&set);
    read_memory(machine);
    (void)bn_machine_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", machine->governor,
                          sizeof machine->governor);
    read_load(machine);
    read_quotas(machine);
}

void bn_machine_put(bn_json *object, const struct bn_machine *machine)
{
    BN_PUT(object, BN_TEXT("os", machine->os), BN_TEXT("kernel", machine->kernel),
           BN_TEXT("arch", machine->arch), BN_TEXT("cpu_model", machine->cpu_model),
           BN_TEXT("microcode", machine->microcode));
    bn_json_put_texts(object, "cpu_flags", machine->flags, machine->n_flags);
    BN_PUT(object, BN_COUNT("cpus_online", machine->cpus_online),
           BN_COUNT("cpus_usable", machine->cpus_usable), BN_COUNT("cores", machine->cores),
           BN_COUNT("cache_l2_bytes", machine->cache_l2_bytes),
           BN_COUNT("cache_l3_bytes", machine->cache_l3_bytes),
           BN_COUNT("memory_bytes", machine->memory_bytes), BN_COUNT("page_bytes", machine->page_bytes));
    if (machine->hypervisor_known)
        bn_json_put_bool(object, "hypervisor", machine->hypervisor);
    else
        bn_json_put_null(object, "hypervisor");
    bn_json_put_text(object, "governor", machine->governor);
    bn_json *load = machine->load_known ? bn_json_put_array(object, "load_milli") : NULL;
    for (size_t i = 0; i < 3; i++)
        bn_json_add_u64(load, machine->load_milli[i]);
    if (load == NULL) bn_json_put_null(object, "load_milli");
    bool quota = machine->quota_known && machine->quota_us != 0;
    bn_json_put_count(object, "cpu_quota_us", quota ? machine->quota_us : 0);
    bn_json_put_count(object, "cpu_period_us", quota ? machine->period_us : 0);
    if (machine->device != NULL) bn_machine_put_device(bn_json_put_object(object, "device"), machine->device);
}

void bn_machine_put_device(bn_json *object, const bn_device_info *device)
{
    BN_PUT(object, BN_STRING("id", device->id), BN_STRING("type", device->type),
           BN_TEXT("name", device->name), BN_TEXT("vendor", device->vendor),
           BN_TEXT("platform", device->platform), BN_TEXT("driver", device->driver),
           BN_TEXT("version", device->version), BN_COUNT("memory", device->memory),
           BN_TEXT("program", device->program));
}

uint64_t bn_machine_status_bytes(const char *name)
{
    return status_bytes("/proc/self/status", name);
}

/* The high-water mark of this program; that of getrusage includes the program that ran before exec. */
uint64_t bn_machine_peak_rss_bytes(void)
{
    return bn_machine_status_bytes("VmHWM");
}

uint64_t bn_machine_tree_peak_rss_bytes(int pid)
{
    char path[64], *at;
    struct bn_buf children;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    uint64_t sum = status_bytes(path, "VmHWM");
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    if (!read_text(path, &children)) return sum;
    at = children.data;
    for (long child; (child = strtol(at, &at, 10)) > 0;)
        sum += bn_machine_tree_peak_rss_bytes((int)child);
    bn_buf_release(&children);
    return sum;
}

/* proc(5): writing 5 to clear_refs resets VmHWM. */
bool bn_machine_reset_peak_rss(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool reset = write(fd, "5", 1) == 1;
    int why = errno;
    close(fd);
    errno = why;
    return reset;
}

/* ---- the key and the label of a machine ---- */

/* Words of a processor's name that do not identify it: trade marks, "processor", the number of cores. */
static bool is_noise(const char *word)
{
    static const char *const NOISE[] = {"r", "tm", "c", "cpu", "processor", "core", "with", "genuine"};
    size_t digits = strspn(word, "0123456789");
    return BN_HAS(NOISE, word) || (digits > 0 && strcmp(word + digits, "-core") == 0);
}

/* "AMD EPYC 9B45 128-Core Processor" gives "amd-epyc-9b45"; what follows "@" is a clock rate. */
static void put_slug(char *out, size_t room, const char *model)
{
    size_t len = 0;
    out[0] = '\0';
    for (const char *at = model; *at != '\0' && *at != '@';) {
        char word[32];
        size_t n = 0;
        for (; isalnum((unsigned char)*at) || (*at == '-' && n > 0); at++)
            if (n < sizeof word - 1) word[n++] = (char)tolower((unsigned char)*at);
        word[n] = '\0';
        if (n == 0) at++;
        if (n == 0 || is_noise(word) || len + n + 2 > room) continue;
        len += (size_t)snprintf(out + len, room - len, "%s%s", len > 0 ? "-" : "", word);
    }
}

static void put_identity(bn_json *o, const struct bn_machine *m)
{
    BN_PUT(o, BN_STRING("arch", m->arch), BN_STRING("cpu_model", m->cpu_model));
    bn_json_put_texts(o, "cpu_flags", m->flags, m->n_flags);
    BN_PUT(o, BN_U64("cpus_online", m->cpus_online), BN_U64("cores", m->cores));
    /* The kernel reserves a varying part of it. */
    bn_json_put_u64(o, "memory_gib", (m->memory_bytes + (1u << 29)) >> 30);
    if (m->hypervisor_known)
        bn_json_put_bool(o, "hypervisor", m->hypervisor);
    else
        bn_json_put_null(o, "hypervisor");
    if (m->device == NULL) return; /* with one, it is another machine than its CPU alone */
    bn_json *device = bn_json_put_object(o, "device");
    BN_PUT(device, BN_STRING("type", m->device->type), BN_STRING("name", m->device->name),
           BN_STRING("platform", m->device->platform));
}

bn_status bn_machine_identify(struct bn_machine_id *id, const struct bn_machine *machine, bn_error *err)
{
    char slug[40];
    bn_json *o = bn_json_new_object();
    put_identity(o, machine);
    bn_status status = bn_json_digest(o, id->key, err);
    bn_json_free(o);
    BN_TRY(status);
    const char *model = machine->device != NULL ? machine->device->name : machine->cpu_model;
    put_slug(slug, sizeof slug, model[0] != '\0' ? model : machine->arch);
    snprintf(id->label, sizeof id->label, "%s%s%ucpu-%.8s", slug, slug[0] != '\0' ? "-" : "",
             machine->cpus_online, id->key);
    return BN_OK;
}
