/* SPDX-License-Identifier: MIT
 *
 * bn-run devices: the devices for --device, what they are, and what those that are refused lack.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "lab/host/machine.h"
#include "lab/kit/put_counts.h"
#include "lab/report/units.h"
#include "tools/cli/report.h"
#include "tools/run/run.h"

#define MOST_DEVICES 64u

static void print_row(const bn_device_info *d)
{
    char memory[BN_UNITS_ROOM];
    printf("%-10s %-12s %10s %6u  %-9s %-4s %s\n", d->id, d->type,
           bn_units_text(memory, (double)d->memory, "bytes"), d->units, d->has_fp64 ? "yes" : "no",
           d->has_dot ? "yes" : "no", d->lacks[0] == '\0' ? "nothing" : d->lacks);
    printf("%-10s %s\n%-10s %s, driver %s\n", "", d->name, "", d->platform, d->driver);
}

static void put_json(bn_json *list, const bn_device_info *d)
{
    bn_json *o = bn_json_add_object(list);
    bn_machine_put_device(o, d); /* its program is null: none was built */
    BN_PUT(o, BN_U64("largest_buffer", d->max_alloc), BN_U64("units", d->units), BN_U64("mhz", d->mhz),
           BN_FLAG("binary64", d->has_fp64), BN_FLAG("dot", d->has_dot), BN_TEXT("lacks", d->lacks));
}

bn_status bn_run_devices(struct bn_args *args, bn_error *err)
{
    bn_error why = {0};
    size_t n = 0;
    bn_device_info *devices = bn_alloc(MOST_DEVICES, sizeof *devices);
    if (devices == NULL) return bn_nomem(err);
    bn_status status = BN_OK; /* without devices too: there is the CPU */
    if (bn_devices(devices, MOST_DEVICES, &n, &why) != BN_OK) n = 0;
    if (n > MOST_DEVICES) n = MOST_DEVICES;
    if (args->json) {
        bn_json *doc = bn_json_new_object();
        bn_json_put_string(doc, "schema", BN_RUN_SCHEMA);
        bn_json *list = bn_json_put_array(doc, "devices");
        for (size_t i = 0; i < n; i++)
            put_json(list, &devices[i]);
        BN_PUT(doc, BN_TEXT("why_none", why.msg), BN_TEXT("hint", why.hint));
        status = bn_cli_flush_json(doc, false, err);
    } else if (n == 0) {
        printf("cpu is the only device: %s\nto use another one: %s\n", why.msg, why.hint);
    } else {
        puts("device     type             memory  units  binary64  dot  lacks");
        for (size_t i = 0; i < n; i++)
            print_row(&devices[i]);
    }
    bn_free(devices);
    return status;
}
