/* SPDX-License-Identifier: MIT
 *
 * Where a document comes from: program and build, repository, machine and model. The process that measures
 * computes the digests, because files change later; it calls these when nothing is timed. A value that is not
 * known is null, and the member "unavailable" has the reason.
 */
#ifndef BN_CLI_PROVENANCE_H
#define BN_CLI_PROVENANCE_H

#include "base/json.h"
#include "lab/host/machine.h"
#include "tools/cli/options.h"

/* Puts "program" (version, commit, dirty, compiler, flags, binary_sha256), "git" (of the working folder) and
 * "machine" (NULL: as it is now). */
void bn_cli_put_provenance(bn_json *document, const struct bn_machine *machine);
/* From here on, the machine that is put has this device, NULL for none: that of the model which was opened last. */
void bn_cli_note_device(const bn_device_info *device);
/* Puts "machine" again when a device is known by now: for documents that begin before the model is opened. */
void bn_cli_put_device(bn_json *document, const struct bn_machine *machine);
/* Puts the digest of a file under a name, or the reason why there is none. */
void bn_cli_put_file_digest(bn_json *object, const char *name, const char *path);
/* Puts "model", and returns it: name and sha256 of the model that --model names, or of the built-in one;
 * all of it is read. A program that calls this contains that model (tools/cli/default_model.h). */
bn_json *bn_cli_put_model(bn_json *document, const struct bn_args *args);

#endif
