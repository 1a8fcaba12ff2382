/* SPDX-License-Identifier: MIT
 *
 * Finds the word most like another by the restricted Damerau-Levenshtein distance, row by row.
 */
#include "base/suggest.h"

#include <string.h>

#include "base/mem.h"

size_t bn_edit_distance(const char *a, const char *b)
{
    size_t rows[3][BN_SUGGEST_MAX + 1]; /* two lines up, one line up, this line */
    size_t n_a = strlen(a), n_b = strlen(b);
    if (n_a > BN_SUGGEST_MAX || n_b > BN_SUGGEST_MAX) return BN_SUGGEST_MAX;
    size_t *above2 = rows[0], *above = rows[1], *line = rows[2];
    for (size_t j = 0; j <= n_b; j++)
        above2[j] = above[j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        line[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t change = above[j - 1] + (a[i - 1] != b[j - 1]);
            line[j] = bn_min_size(bn_min_size(above[j], line[j - 1]) + 1, change);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && above2[j - 2] + 1 < line[j])
                line[j] = above2[j - 2] + 1;
        }
        size_t *spare = above2;
        above2 = above;
        above = line;
        line = spare;
    }
    return above[n_b];
}

void bn_suggest(struct bn_suggestion *s, const char *candidate)
{
    size_t n = strlen(s->typed);
    size_t distance = bn_edit_distance(s->typed, candidate);
    /* A beginning of at least three letters is meant too: --temper for --temperature. */
    if (n >= 3 && strncmp(s->typed, candidate, n) == 0) distance = 1;
    size_t near = n < 3 ? 1 : 1 + n / 4;
    if (n == 0 || distance > near || distance >= strlen(candidate)) return;
    if (s->best == NULL || distance < s->distance) {
        s->best = candidate;
        s->distance = distance;
    }
}
