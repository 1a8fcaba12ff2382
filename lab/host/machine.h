/* SPDX-License-Identifier: MIT
 *
 * Facts about this machine that an ordinary user can read. Nothing is guessed: a fact that cannot be read is
 * unknown, and null in JSON. Host name, user name and paths are not included.
 */
#ifndef BN_HOST_MACHINE_H
#define BN_HOST_MACHINE_H

#include <linux/limits.h>

#include "base/json.h"
#include "bn.h"

#define BN_MACHINE_FLAGS 32u

/* Texts are empty and counts are 0 when unknown. */
struct bn_machine {
    char os[32];         /* "Linux" */
    char kernel[128];    /* release of the operating system's kernel */
    char arch[32];       /* "x86_64" */
    char cpu_model[128]; /* as the firmware spells it */
    char microcode[32];
    char governor[32];    /* of the first core's frequency */
    uint32_t cpus_online; /* hardware threads */
    uint32_t cores;       /* physical ones, over all sockets */
    uint32_t cpus_usable; /* that this process may run on */
    uint64_t memory_bytes, cache_l2_bytes, cache_l3_bytes;
    uint32_t page_bytes;
    bool hypervisor_known, hypervisor;   /* is this a virtual machine? */
    bool load_known, quota_known;        /* quota_known: control groups could be read */
    uint32_t load_milli[3];              /* load average over 1, 5, 15 minutes, times 1000 */
    uint64_t quota_us, period_us;        /* tightest CPU quota of the control group; 0: none */
    const char *flags[BN_MACHINE_FLAGS]; /* instruction sets that kernels care about */
    size_t n_flags;
    const bn_device_info *device; /* that computed in place of the CPU, borrowed; NULL: none */
};

/* Reads /proc and /sys. */
void bn_machine_read(struct bn_machine *machine);
/* Puts its fields into an object; those of the device, if there is one, into its member "device". */
void bn_machine_put(bn_json *object, const struct bn_machine *machine);
/* What documents and receipts say of a device. */
void bn_machine_put_device(bn_json *object, const bn_device_info *device);

/* Identifies the machine, so that only runs of one machine are compared. Made of facts that are the same
 * after every boot and under any load (processor, instruction sets, hardware threads and cores, memory in
 * whole GiB, architecture, virtual or not, and the device that computed), not of the operating system. */
struct bn_machine_id {
    char key[65];   /* sha256 of those, hex */
    char label[80]; /* readable, the name of a folder: "amd-epyc-9b45-2cpu-1a2b3c4d" */
};
BN_MUST_CHECK bn_status bn_machine_identify(struct bn_machine_id *id, const struct bn_machine *machine,
                                            bn_error *err);
/* The first line of a small file, such as one of /sys; false when it cannot be read. */
bool bn_machine_line(const char *path, char *out, size_t room);
/* A field of /proc/self/status ("VmSize"), in bytes; 0 when unknown. */
uint64_t bn_machine_status_bytes(const char *name);
/* Peak resident memory of this process, in bytes; 0 when unknown. */
uint64_t bn_machine_peak_rss_bytes(void);
/* The sum of the peaks of a process and of those that its main threads started; 0 when unknown. */
uint64_t bn_machine_tree_peak_rss_bytes(int pid);
/* Resets the peak to the current value; false, with errno, where the system does not permit it. */
bool bn_machine_reset_peak_rss(void);

/* The folder itself, or the nearest one above it that exists. */
void bn_disk_nearest(char there[PATH_MAX], const char *folder);
/* Bytes that this user may still write there; false when they cannot be read. there: see above. */
bool bn_disk_free(uint64_t *bytes, char there[PATH_MAX], const char *folder);

#endif
