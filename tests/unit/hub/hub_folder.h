/* SPDX-License-Identifier: MIT
 *
 * What the tests of the hub share.
 */
#ifndef BN_TESTS_HUB_FOLDER_H
#define BN_TESTS_HUB_FOLDER_H

#include <fcntl.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>

#include "hub/cache/cache.h"
#include "hub/files/document.h"
#include "hub/names/names.h"
#include "hub/net/resolve.h"
#include "tests/unit/folder.h"
#include "tools/download/download.h"

#define ONE "1111111111111111111111111111111111111111"
#define TWO "2222222222222222222222222222222222222222"
#define SHA_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

#endif
