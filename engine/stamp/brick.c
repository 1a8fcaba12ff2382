/* SPDX-License-Identifier: MIT
 *
 * Names, categories and aliases of bricks.
 */
#include "stamp/brick.h"

#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    enum bn_brick_category category;
    const char *aliases; /* words with a space between */
} BRICKS[BN_BRICK_KNOWN] = {
#define X(constant, name, category, aliases) {name, BN_CATEGORY_##category, aliases},
    BN_BRICKS(X)
#undef X
};

const char *bn_brick_name(unsigned brick)
{
    return brick < BN_BRICK_KNOWN ? BRICKS[brick].name : NULL;
}

enum bn_brick_category bn_brick_category(unsigned brick)
{
    return brick < BN_BRICK_KNOWN ? BRICKS[brick].category : BN_CATEGORY_OTHER;
}

const char *bn_brick_category_name(enum bn_brick_category category)
{
    static const char *const NAMES[BN_CATEGORY_COUNT] = {"Norm", "Attention", "FFN", "Head", "Other"};
    return (unsigned)category < BN_CATEGORY_COUNT ? NAMES[category] : "Other";
}

/* Is word one of the words of list? */
static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    while (n > 0 && *list != '\0') {
        size_t len = strcspn(list, " ");
        if (len == n && strncasecmp(list, word, n) == 0) return true;
        list += len + (list[len] == ' ');
    }
    return false;
}

unsigned bn_brick_find(const char *name)
{
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++)
        if (strcasecmp(name, BRICKS[i].name) == 0 || has_word(BRICKS[i].aliases, name)) return i;
    return BN_BRICK_NONE;
}
