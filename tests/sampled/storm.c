/* SPDX-License-Identifier: MIT
 *
 * A storm: one thread allocates and frees, another loads and unloads a library and calls into it, a third
 * starts threads that live a moment; all while they are sampled. What a sampler does that is not safe in a
 * signal handler hangs here, or crashes.
 *
 *     storm LIBRARY [WALL_MS]      2000 unless it is given
 */
#include "sampled.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static const char *library;
static uint64_t until;
static uint64_t counts[3];

static void *allocate(void *unused)
{
    void *blocks[64] = {0};
    uint64_t random = 7;
    while (wall_ns() < until) {
        for (int i = 0; i < 1000; i++) {
            void **block = &blocks[next_random(&random) % 64];
            free(*block);
            *block = malloc(1 + next_random(&random) % 4096);
        }
        counts[0]++;
    }
    for (int i = 0; i < 64; i++)
        free(blocks[i]);
    return unused;
}

static void *load(void *unused)
{
    while (wall_ns() < until) {
        void *handle = dlopen(library, RTLD_NOW),
             *symbol = handle != NULL ? dlsym(handle, "storm_work") : NULL;
        uint64_t (*work)(uint64_t) = NULL;
        if (symbol == NULL) {
            fprintf(stderr, "storm: %s\n", dlerror());
            exit(1);
        }
        __builtin_memcpy(&work, &symbol, sizeof work);
        work(20000);
        dlclose(handle);
        counts[1]++;
    }
    return unused;
}

static void *moment(void *unused)
{
    turn(1, 20000);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[2], brief;
    if (argc < 2) return 2;
    library = argv[1];
    until = wall_ns() + (argc > 2 ? strtoull(argv[2], NULL, 10) : 2000) * 1000000u;
    if (pthread_create(&threads[0], NULL, allocate, NULL) != 0) return 1;
    if (pthread_create(&threads[1], NULL, load, NULL) != 0) return 1;
    while (wall_ns() < until) {
        if (pthread_create(&brief, NULL, moment, NULL) != 0) return 1;
        pthread_join(brief, NULL);
        counts[2]++;
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("{\"allocations\": %" PRIu64 ", \"loads\": %" PRIu64 ", \"threads\": %" PRIu64 "}\n",
           counts[0] * 1000, counts[1], counts[2]);
    return 0;
}
