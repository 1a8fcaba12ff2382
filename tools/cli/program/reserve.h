/* SPDX-License-Identifier: MIT
 *
 * A reserve of memory for libcrypto.
 */
#ifndef BN_TOOLS_CLI_PROGRAM_RESERVE_H
#define BN_TOOLS_CLI_PROGRAM_RESERVE_H

/* Lets libcrypto, and the libraries that use it, survive failed allocations. Called once, when a program starts. */
void bn_crypto_reserve(void);

#endif
