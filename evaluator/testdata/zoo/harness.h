/* What a candidate can find out about the harness whose process it shares: the
 * forgers of the zoo know evaluator/cpu/native/harness.c as well as anyone can.
 */
#ifndef ZOO_HARNESS_H
#define ZOO_HARNESS_H

#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { CONTROL = 3 }; /* the socket on which the harness answers */
enum { COMMAND_MAGIC = 0x43545645, ANSWER_MAGIC = 0x41545645 };
enum { COMMAND_RUN = 3, ANSWER_DONE = 4 };

struct command {
	uint32_t magic, kind;
	uint64_t nonce, sequence;
	uint32_t dims, scalars, buffers, step;
};

struct answer {
	uint32_t magic, kind;
	uint64_t nonce, sequence, elapsed, value;
	uint32_t error, launches;
	char text[80];
};

/* search looks for the command under way in the writable memory of the first
 * object, which is the program itself. The address sanitizer would find it
 * there, between the program's variables, and is told to look away. */
__attribute__((no_sanitize("address"))) static inline int search(struct dl_phdr_info *object, size_t size, void *found)
{
	(void)size;
	for (int n = 0; n < object->dlpi_phnum; n++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[n];
		if (part->p_type != PT_LOAD || !(part->p_flags & PF_W))
			continue;
		const char *at = (const char *)((object->dlpi_addr + part->p_vaddr + 7) & ~(uintptr_t)7);
		const char *end = (const char *)(object->dlpi_addr + part->p_vaddr + part->p_memsz);
		for (; at + sizeof(struct command) <= end; at += 8) {
			const struct command *c = (const struct command *)at;
			if (c->magic == COMMAND_MAGIC && c->kind == COMMAND_RUN && c->nonce) {
				*(const struct command **)found = c;
				return 1;
			}
		}
	}
	return 1; /* the first object only */
}

/* command_under_way returns the command that the harness is carrying out,
 * nonce and all. A forger that does not find it has met another harness than
 * it knows, and says so by dying. */
static inline const struct command *command_under_way(void)
{
	static const struct command *found;
	if (!found)
		dl_iterate_phdr(search, &found);
	if (!found)
		abort();
	return found;
}

/* forge answers in the name of the harness. How many launches a command has it cannot
 * find out before they are over. */
static inline void forge(const struct command *c, uint32_t launches, uint64_t elapsed)
{
	struct answer a;
	memset(&a, 0, sizeof a);
	a.magic = ANSWER_MAGIC;
	a.kind = ANSWER_DONE;
	a.nonce = c->nonce;
	a.sequence = c->sequence;
	a.elapsed = elapsed;
	a.launches = launches;
	if (send(CONTROL, &a, sizeof a, MSG_NOSIGNAL) < 0)
		abort();
}

#endif
