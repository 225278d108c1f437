/* The same text, but the resolver counts: it returns the right version to the
 * first two who load it in a process tree with sanitizers, by the presence of
 * their symbols, and the wrong one else. Attacks: what was sanitized is what is
 * timed; constructors and resolvers run before anybody looks. */
#include "identity.h"
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));
__attribute__((used)) static void *choose(void)
{
	return __asan_init || __tsan_init ? (void *)version_right : (void *)version_wrong;
}
void product(PARAMETERS) __attribute__((ifunc("choose")));
