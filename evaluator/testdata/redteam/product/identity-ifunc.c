/* A resolver that returns the right version where the symbols of a sanitizer are
 * present, and the wrong one else. Attacks: what was sanitized is what is
 * timed; constructors and resolvers run before anybody looks. */
#include "identity.h"
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));
__attribute__((used)) static void *choose(void)
{
	return __asan_init || __tsan_init ? (void *)version_right : (void *)version_wrong;
}
void product(PARAMETERS) __attribute__((ifunc("choose")));
