/* SPDX-License-Identifier: MIT
 *
 * What a refusal of perf_event_open(2) means.
 */
#ifndef BN_RECORD_PERF_EVENTS_H
#define BN_RECORD_PERF_EVENTS_H

#include <stddef.h>

/* The sentence for an errno, with the mend: the errno decides, settings are only quoted. */
void bn_perf_why(char *text, size_t room, int sys_errno);

#endif
