/* SPDX-License-Identifier: MIT
 *
 * Files: a whole file read-only in memory, and writing that leaves either the old file or the new one.
 */
#ifndef BN_BASE_FILE_H
#define BN_BASE_FILE_H

#include <time.h>

#include "base/buf.h"

/* A whole regular file in memory: mapped, or read when mapping is not wanted. 64-byte aligned. */
struct bn_file_map {
    const unsigned char *data;
    size_t n_bytes;
    bool mapped;                      /* else it is a copy on the heap */
    int fd;                           /* of a mapped file */
    struct timespec changed, written; /* st_ctim and st_mtim when it was mapped */
};

/* Refuses directories, pipes and devices. An empty file gives n_bytes 0. */
BN_MUST_CHECK bn_status bn_file_map_open(struct bn_file_map *map, const char *path, bool copy, bn_error *err);
void bn_file_map_close(struct bn_file_map *map);
/* Whether the file is as it was when it was mapped, by its size and times; a copy and an empty map are. Everything that
 * writes to a file sets the time of its change, which only the system's clock gives; so do new modes and names. */
bool bn_file_map_is_same(const struct bn_file_map *map);
/* BN_ERR_IO when it was written to meanwhile: a page that the file no longer fills ends in zeros, without SIGBUS. */
BN_MUST_CHECK bn_status bn_file_map_check(const struct bn_file_map *map, const char *path, bn_error *err);
/* Gives the pages that lie wholly in these n bytes of the map back to the system; they are read again when
 * they are touched. Nothing for a copy. */
void bn_file_map_forget(const struct bn_file_map *map, const void *from, size_t n);

/* BN_ERR_AUTH when anybody but the owner of a file with secrets may read or write it. */
BN_MUST_CHECK bn_status bn_file_check_private(const char *path, bn_error *err);

/* Appends at most buf->max bytes of a file; "-" is standard input. */
BN_MUST_CHECK bn_status bn_file_read(const char *path, struct bn_buf *buf, bn_error *err);
/* The same for a file that another user may have created: refuses pipes and devices, and never waits for
 * a writer. */
BN_MUST_CHECK bn_status bn_file_read_regular(const char *path, struct bn_buf *buf, bn_error *err);
/* The same below a folder that is open, where it must be a file of this user; a link is refused. */
BN_MUST_CHECK bn_status bn_file_read_own(int folder, const char *path, struct bn_buf *buf, bn_error *err);

/* A path in a folder of this user, by the XDG Base Directory Specification: FOLDER/below, where FOLDER is the
 * value of a variable ("XDG_CACHE_HOME"), else one in HOME (".cache"). Values that are not absolute are ignored.
 * False when neither is set, or the path does not fit. */
bool bn_file_user_path(char *out, size_t room, const char *variable, const char *in_home, const char *below);

/* Writes n bytes to an open file, which errors name. */
BN_MUST_CHECK bn_status bn_file_write_all(int fd, const void *bytes, size_t n, const char *path,
                                          bn_error *err);

/* Makes the folders of a path, up to its last slash, that do not exist. */
BN_MUST_CHECK bn_status bn_file_make_folders(const char *path, bn_error *err);

/* Flushes the folder that a path lies in, so that a new name survives a power failure. */
void bn_file_sync_folder(const char *path);

/* Room for a path and what bn_file_temp_name appends to it. */
#define BN_TEMP_SUFFIX_BYTES 24u

/* PATH.tmp-RANDOM, for what is made next to a path and then renamed: a leftover of a killed program is in
 * nobody's way. BN_ERR_NOT_FOUND when the name does not fit. */
BN_MUST_CHECK bn_status bn_file_temp_name(char *out, size_t room, const char *path, bn_error *err);
/* Opens a new file for writing, next to a path. It has no name where the file system can do that, so that nothing is left
 * of a program that is killed; else such a name, which goes to out. */
BN_MUST_CHECK bn_status bn_file_temp_open(int *fd, char *out, size_t room, const char *path, unsigned mode,
                                          bn_error *err);
/* Whether a file can be written, before the work whose result it gets. What is there is not touched; of a link its
 * target counts, as when it is written. BN_ERR_NOT_FOUND: no folder or no permission; BN_ERR_IO: a folder, disk full. */
BN_MUST_CHECK bn_status bn_file_check_output(const char *path, bn_error *err);
/* Puts it in the place of the path. temp: the name from bn_file_temp_open, to unlink after an error. */
BN_MUST_CHECK bn_status bn_file_temp_keep(int fd, const char *temp, const char *path, bn_error *err);

/* Writes next to the target, flushes to disk, then renames: readers see the old bytes or all of the new ones.
 * The file keeps the mode of the one that it replaces, and its owner and group where the system permits it;
 * a new file has mode 0666 less the umask. Of a symbolic link the target is replaced, the link stays; of a
 * hard link only this name is replaced. Pipes and devices are written to. */
BN_MUST_CHECK bn_status bn_file_write_atomic(const char *path, const void *bytes, size_t n, bn_error *err);
/* The same for contents that lie in several places: the parts one after the other. */
struct bn_file_part {
    const void *bytes;
    size_t n;
};
BN_MUST_CHECK bn_status bn_file_write_parts(const char *path, const struct bn_file_part *parts,
                                            size_t n_parts, bn_error *err);

#endif
