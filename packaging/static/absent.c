/* SPDX-License-Identifier: MIT
 *
 * What static programs do without: functions of glibc that load shared libraries of the system, which may be of another
 * libc. Libraries that are linked in mention them; here each finds nothing. Host names are resolved by c-ares.
 * The callers have the prototypes; their arguments are not looked at. */
#include <stddef.h>

static void *nothing(void)
{
    return NULL;
}
static int failure(void)
{
    return 4;
} /* EAI_FAIL; an error number for the others */
static const char *words(void)
{
    return "static programs load no libraries";
}

#define ABSENT(type, name, as) type name(void) __attribute__((alias(#as)));
ABSENT(void *, __wrap_dlopen, nothing) /* glibc itself has a dlopen for its character sets */
ABSENT(void *, gethostbyname, nothing)
ABSENT(void *, getservbyname, nothing)
ABSENT(void *, getpwuid, nothing)
ABSENT(void *, getpwent, nothing)
ABSENT(void *, setpwent, nothing)
ABSENT(void *, endpwent, nothing)
ABSENT(void *, freeaddrinfo, nothing)
ABSENT(int, getaddrinfo, failure)
ABSENT(int, getnameinfo, failure)
ABSENT(int, getservbyport_r, failure)
ABSENT(int, getpwuid_r, failure)
ABSENT(int, getpwnam_r, failure)
ABSENT(const char *, gai_strerror, words)
ABSENT(const char *, dlerror, words)
