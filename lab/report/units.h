/* SPDX-License-Identifier: MIT
 *
 * Numbers with units, and names of tests, for people. One formatter for every table, page and message: four
 * significant digits, and the prefix that leaves one to four digits before the point.
 *
 * A unit is named as documents name it: "ns", "bytes", "bytes/s", "tok/s", "ops/s", "MAC/s", "1/s", "1".
 * Sizes use binary prefixes (KiB, MiB, GiB), rates use decimal ones (GB/s, GMAC/s). An unknown unit is
 * written unscaled after the number.
 */
#ifndef BN_REPORT_UNITS_H
#define BN_REPORT_UNITS_H

#include "base/buf.h"

#define BN_UNITS_ROOM 48u

/* value * factor is in the unit `name`, which is "" for a plain number. */
struct bn_units_scale {
    double factor;
    const char *name;
};

/* The unit in which people read a series: "tok/s" for a metric of tokens in "1/s", else the unit itself. */
const char *bn_units_of(const char *metric, const char *unit);
/* The scale that suits the value; a table uses one scale for a column or for both ends of an interval. */
struct bn_units_scale bn_units_scale(const char *unit, double value);
/* The number alone: "5.343", "12", "-" when it is not finite. */
void bn_units_number(struct bn_buf *out, double value, struct bn_units_scale scale);
/* "5.343 ms", "1.5 KiB", "12 faults", "-". */
void bn_units_value(struct bn_buf *out, double value, const char *unit);
/* The share 0.0123 as "1.23 %", with a sign as "+1.23 %". */
void bn_units_percent(struct bn_buf *out, double share, bool sign);
/* "1 thread", "2 threads": the plural appends an s. */
void bn_units_count(struct bn_buf *out, uint64_t n, const char *noun);

/* The same for printf, in a caller's array; returns out. */
const char *bn_units_text(char out[BN_UNITS_ROOM], double value, const char *unit);
const char *bn_units_percent_text(char out[BN_UNITS_ROOM], double share, bool sign);

/* ---- names of tests (test_name.c) ----
 *
 * Documents and baselines name a test by a key that never changes: "decode n=16 d=0 t=1". People read
 * "decode 16 tokens, 1 thread". Fields that the table of fields does not have are shown as they are. */

#define BN_TEST_ROOM 640u

/* The name for people; returns out. A longer one is cut. */
const char *bn_test_name(char out[BN_TEST_ROOM], const char *key);
/* Whether the key or the name for people has this part: for --filter. */
bool bn_test_has(const char *key, const char *part);
/* Is the word, of n bytes, one of those in the text, which are separated by this character? */
bool bn_has_word(const char *text, char between, const char *word, size_t n);

#endif
