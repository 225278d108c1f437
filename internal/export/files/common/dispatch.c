/* See dispatch.h. */
#define _GNU_SOURCE
#include "dispatch.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evotune.h"

_Atomic uint64_t evo_epoch_ = 1;

/* Lines are added and never taken away or changed: who holds a table may read it for ever. */
struct table {
	const struct table *before;
	size_t count;
	const struct evo_line *lines[];
};

static _Atomic(const struct table *) wisdom;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

static void to_stderr(const char *message, void *user)
{
	(void)user;
	fprintf(stderr, "evotune: %s\n", message);
}

/* The file that the environment names is read before the first choice. */
static void begin(void)
{
	const char *path = getenv("EVOTUNE_WISDOM");
	if (path && *path)
		evo_wisdom_load(path, to_stderr, NULL);
}

static pthread_once_t begun = PTHREAD_ONCE_INIT;

/* How far two shapes are from each other, in doublings. A dimension that is 0 in one of
 * them alone is a flag, and the other side of it another problem. */
static double distance(const struct evo_kernel *k, const int64_t *dims, const double *logs, const struct evo_shape *s)
{
	double sum = 0;
	for (int i = 0; i < k->dim_count; i++) {
		if ((dims[i] == 0) != (s->dims[i] == 0))
			sum += 64;
		sum += fabs(logs[i] - s->logs[i]);
	}
	return sum;
}

static int meant_for(const struct evo_line *l, int device)
{
	return !strcmp(l->device, "*") || !strcmp(l->device, evo_device_name(device));
}

int evo_wisdom_each(int device, int (*f)(const struct evo_variant *v, int device))
{
	pthread_once(&begun, begin);
	const struct table *t = atomic_load_explicit(&wisdom, memory_order_acquire);
	int status = 0;
	for (size_t i = 0; !status && t && i < t->count; i++)
		if (meant_for(t->lines[i], device) && evo_rank(t->lines[i]->variant, device) >= 0)
			status = f(t->lines[i]->variant, device);
	return status;
}

static _Thread_local const char *preferred;

const char *evo_preferred(void) { return preferred; }

int evotune_prefer(const char *candidate)
{
	preferred = NULL;
	if (!candidate || !*candidate)
		return EVOTUNE_OK;
	for (int i = 0; !preferred && evo_kernels[i]; i++)
		for (int j = 0; !preferred && j < evo_kernels[i]->variant_count; j++)
			if (evo_kernels[i]->variants[j].tuned && !strcmp(evo_kernels[i]->variants[j].candidate, candidate))
				preferred = evo_kernels[i]->variants[j].candidate;
	return preferred ? EVOTUNE_OK : EVOTUNE_INVALID;
}

void evo_choose(const struct evo_kernel *k, int device, const int64_t *dims, struct evo_pick *pick)
{
	pthread_once(&begun, begin);
	const uint64_t epoch = evo_epoch();
	*pick = (struct evo_pick){.epoch = epoch, .device = device, .preferred = preferred, .rule = EVOTUNE_NONE};
	const struct table *t = atomic_load_explicit(&wisdom, memory_order_acquire);
	for (size_t i = t ? t->count : 0; i-- > 0;) { /* the newest line wins */
		const struct evo_line *l = t->lines[i];
		if (l->kernel != k || memcmp(l->dims, dims, sizeof(int64_t) * (size_t)k->dim_count))
			continue;
		if (!meant_for(l, device))
			continue;
		if (evo_rank(l->variant, device) < 0 || !evo_fits(l->variant, device, dims))
			continue;
		pick->variant = l->variant;
		pick->line = l;
		pick->rule = EVOTUNE_WISDOM;
		return;
	}
	double logs[EVO_MAX_DIMS];
	for (int i = 0; i < k->dim_count; i++)
		logs[i] = log2(1 + (double)dims[i]);
	int nearest = 0;
	for (int i = 0; i < k->variant_count; i++) {
		const struct evo_variant *v = &k->variants[i];
		const int is = v->tuned && preferred && !strcmp(v->candidate, preferred), near = evo_rank(v, device);
		const int rank = is ? -1 : near; /* nearer than any device */
		if (near < 0 || (pick->variant && (!v->tuned || (pick->rule != EVOTUNE_BASELINE && rank > nearest))))
			continue;
		if (!evo_fits(v, device, dims))
			continue;
		if (!v->tuned) {
			pick->variant = v;
			pick->rule = EVOTUNE_BASELINE;
			continue;
		}
		for (int j = 0; j < v->shape_count; j++) {
			const double d = distance(k, dims, logs, &v->shapes[j]);
			const int better = !pick->variant || pick->rule == EVOTUNE_BASELINE || rank < nearest ||
				d < pick->distance || (d == pick->distance && v->shapes[j].ns < pick->shape->ns);
			if (!better)
				continue;
			nearest = rank;
			pick->variant = v;
			pick->shape = &v->shapes[j];
			pick->distance = d;
			pick->rule = is ? EVOTUNE_PREFERRED : memcmp(v->shapes[j].dims, dims, sizeof(int64_t) * (size_t)k->dim_count) ? EVOTUNE_NEAREST : EVOTUNE_EXACT;
		}
	}
	if (!pick->shape || !pick->shape->instead || pick->rule == EVOTUNE_PREFERRED)
		return;
	for (int i = 0; i < k->variant_count; i++) {
		const struct evo_variant *v = &k->variants[i];
		if (v->tuned || v->routine != (pick->shape->instead == EVO_ROUTINE) || evo_rank(v, device) < 0 || !evo_fits(v, device, dims))
			continue;
		pick->variant = v;
		pick->shape = NULL;
		pick->distance = 0;
		pick->rule = EVOTUNE_BASELINE;
		return;
	}
}

/* Wisdom files. The first line is "evotune-wisdom 1". Every other one that is not empty and
 * does not begin with # has seven fields with tabs between them:
 *
 *     kernel  dimensions  candidate  device  nanoseconds  launch  .
 *
 * The last is a dot: a line that was cut short has none. */

#define HEADER "evotune-wisdom "
#define FIELDS 7

struct reader {
	const char *path;
	int number;
	char folder[4096];
	void (*warn)(const char *, void *);
	void *user;
};

static void complain(const struct reader *r, const char *format, ...)
{
	char what[512], message[5000];
	va_list args;
	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	snprintf(message, sizeof message, "%s:%d: %s", r->path, r->number, what);
	if (r->warn)
		r->warn(message, r->user);
}

/* Reads "ROWS=4,COLS=2": every dimension once, in any order. */
static int read_dims(const struct evo_kernel *k, char *text, int64_t *dims)
{
	int seen[EVO_MAX_DIMS] = {0}, count = 0;
	char *save = NULL;
	for (char *part = strtok_r(text, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
		char *eq = strchr(part, '='), *end = NULL;
		if (!eq)
			return 0;
		*eq = 0;
		int i = 0;
		while (i < k->dim_count && strcmp(part, k->dim_names[i]))
			i++;
		if (i == k->dim_count || seen[i]++ || !isdigit((unsigned char)eq[1]))
			return 0;
		errno = 0;
		dims[i] = strtoll(eq + 1, &end, 10);
		if (errno || *end)
			return 0;
		count++;
	}
	return count == k->dim_count;
}

/* Reads "32,8,1,128,1,1,0,0", or "-" for none. */
static int read_geometry(char *text, int64_t *out)
{
	memset(out, 0, 8 * sizeof *out);
	if (!strcmp(text, "-"))
		return 1;
	char *save = NULL;
	int n = 0;
	for (char *part = strtok_r(text, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
		char *end = NULL;
		errno = 0;
		const long long v = strtoll(part, &end, 10);
		if (n == 8 || errno || *end || v < (n < 6))
			return 0;
		out[n++] = v;
	}
	return n == 8;
}

static int read_line(const struct reader *r, char *text, struct evo_line *l)
{
	char *field[FIELDS];
	int n = 0;
	for (char *p = text; n < FIELDS; n++) {
		field[n] = p;
		p = strchr(p, '\t');
		if (!p) {
			n++;
			break;
		}
		*p++ = 0;
	}
	if (n != FIELDS || strcmp(field[FIELDS - 1], ".")) {
		complain(r, "not a whole line: it has %d of %d fields, or no dot at its end; it is skipped", n, FIELDS);
		return 0;
	}
	memset(l, 0, sizeof *l);
	for (int i = 0; evo_kernels[i]; i++)
		if (!strcmp(evo_kernels[i]->name, field[0]))
			l->kernel = evo_kernels[i];
	if (!l->kernel) {
		complain(r, "this library has no kernel \"%s\"; the line is skipped", field[0]);
		return 0;
	}
	if (!read_dims(l->kernel, field[1], l->dims)) {
		complain(r, "these are not the dimensions of %s; the line is skipped", field[0]);
		return 0;
	}
	if (!read_geometry(field[5], l->geometry)) {
		complain(r, "\"%s\" is no launch geometry; the line is skipped", field[5]);
		return 0;
	}
	if (!*field[3] || strlen(field[3]) >= sizeof l->device) {
		complain(r, "the device has no name, or one that is too long; the line is skipped");
		return 0;
	}
	strcpy(l->device, field[3]);
	for (int i = 0; i < l->kernel->variant_count; i++)
		if (l->kernel->variants[i].tuned && !strcmp(l->kernel->variants[i].candidate, field[2]))
			l->variant = &l->kernel->variants[i];
	if (!l->variant) {
		size_t hex = strspn(field[2], "0123456789abcdef");
		const char *why = "this is no name of a candidate";
		if (hex && !field[2][hex])
			l->variant = evo_plugin(r->folder, l->kernel, field[2], &why);
		if (!l->variant) {
			complain(r, "candidate %s is not in this library: %s; the line is skipped", field[2], why);
			return 0;
		}
		if (l->variant->launch && !l->geometry[0]) {
			complain(r, "candidate %s is not in this library, and the line does not say how to launch it; the line is skipped", field[2]);
			return 0;
		}
	}
	return 1;
}

/* Whether two lines are for the same calls. */
static int same_calls(const struct evo_line *a, const struct evo_line *b)
{
	return a->kernel == b->kernel && !memcmp(a->dims, b->dims, sizeof a->dims) && !strcmp(a->device, b->device);
}

static int load(struct reader *r, FILE *f)
{
	char *text = NULL;
	size_t room = 0;
	ssize_t length;
	int status = EVOTUNE_OK;
	const struct table *old = atomic_load_explicit(&wisdom, memory_order_acquire);
	size_t count = old ? old->count : 0, capacity = count + 16, kept = count;
	struct table *t = malloc(sizeof *t + capacity * sizeof *t->lines);
	if (!t)
		return EVOTUNE_NO_MEMORY;
	if (count)
		memcpy(t->lines, old->lines, count * sizeof *t->lines);
	while (status == EVOTUNE_OK && (length = getline(&text, &room, f)) >= 0) {
		r->number++;
		while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
			text[--length] = 0;
		if (r->number == 1) {
			char *end = NULL;
			const size_t h = strlen(HEADER);
			const long version = strncmp(text, HEADER, h) ? 0 : strtol(text + h, &end, 10);
			if (version < 1 || *end) {
				complain(r, "not a wisdom file: the first line must be \"%s%d\"", HEADER, EVOTUNE_WISDOM_VERSION);
				status = EVOTUNE_BAD_FILE;
			} else if (version > EVOTUNE_WISDOM_VERSION) {
				complain(r, "version %ld, and this library reads version %d: export and build the library again", version, EVOTUNE_WISDOM_VERSION);
				status = EVOTUNE_NEWER;
			}
			continue;
		}
		if (!*text || *text == '#')
			continue;
		struct evo_line *l = malloc(sizeof *l);
		if (!l) {
			status = EVOTUNE_NO_MEMORY;
			break;
		}
		if (!read_line(r, text, l)) {
			free(l);
			continue;
		}
		/* It takes the place of an older one, so that a file may be read often. */
		for (size_t i = 0; i < kept; i++) {
			const struct evo_line *was = t->lines[i];
			if (!same_calls(was, l))
				continue;
			memmove(&t->lines[i], &t->lines[i + 1], (--count - i) * sizeof *t->lines);
			kept--;
			if (was->variant == l->variant && !memcmp(was->geometry, l->geometry, sizeof l->geometry)) {
				free(l);
				t->lines[count++] = was;
				l = NULL;
			}
			break;
		}
		if (!l)
			continue;
		if (count == capacity) {
			capacity *= 2;
			struct table *more = realloc(t, sizeof *t + capacity * sizeof *t->lines);
			if (!more) {
				free(l);
				status = EVOTUNE_NO_MEMORY;
				break;
			}
			t = more;
		}
		t->lines[count++] = l;
	}
	if (status == EVOTUNE_OK && ferror(f)) {
		complain(r, "%s", strerror(errno));
		status = EVOTUNE_BAD_FILE;
	} else if (status == EVOTUNE_OK && r->number == 0) {
		complain(r, "the file is empty");
		status = EVOTUNE_BAD_FILE;
	}
	free(text);
	if (status != EVOTUNE_OK) {
		for (size_t i = kept; i < count; i++) {
			size_t j = 0;
			while (old && j < old->count && old->lines[j] != t->lines[i])
				j++;
			if (!old || j == old->count)
				free((void *)(uintptr_t)t->lines[i]);
		}
		free(t);
		return status;
	}
	t->count = count;
	t->before = old;
	/* The table before stays: another thread may be reading it. */
	atomic_store_explicit(&wisdom, t, memory_order_release);
	atomic_fetch_add_explicit(&evo_epoch_, 1, memory_order_release);
	return EVOTUNE_OK;
}

int evo_wisdom_load(const char *path, void (*warn)(const char *, void *), void *user)
{
	if (!path)
		return EVOTUNE_INVALID;
	struct reader r = {.path = path, .warn = warn, .user = user};
	const char *slash = strrchr(path, '/');
	snprintf(r.folder, sizeof r.folder, "%.*s", slash ? (int)(slash - path) + 1 : 2, slash ? path : "./");
	FILE *f = fopen(path, "re");
	if (!f) {
		complain(&r, "%s", strerror(errno));
		return EVOTUNE_BAD_FILE;
	}
	pthread_mutex_lock(&loading);
	const int status = load(&r, f);
	pthread_mutex_unlock(&loading);
	fclose(f);
	return status;
}

int evotune_wisdom_load(const char *path, void (*warn)(const char *, void *), void *user)
{
	pthread_once(&begun, begin); /* what the environment names was there before */
	return evo_wisdom_load(path, warn ? warn : to_stderr, user);
}

const char *evotune_status_text(int status)
{
	switch (status) {
	case EVOTUNE_OK:
		return "ok";
	case EVOTUNE_INVALID:
		return "an argument is not valid: a null pointer, on GPUs one that is no multiple of 16, a negative size, one beyond any memory, or a flag that is neither 0 nor 1";
	case EVOTUNE_NO_MEMORY:
		return "out of memory";
	case EVOTUNE_UNSUPPORTED:
		return "no kernel of this library computes this problem on this device";
	case EVOTUNE_BAD_FILE:
		return "the file cannot be read, or is no wisdom file";
	case EVOTUNE_NEWER:
		return "the wisdom file is newer than this library";
	case EVOTUNE_DEVICE:
		return "the device, or its driver, refused";
	case EVOTUNE_WORKSPACE:
		return "the workspace is too small, or missing";
	case EVOTUNE_DRIVER:
		return "the driver is too old for this kernel: clusters, cooperative and dependent launches and tensor maps need one of CUDA 12";
	}
	return "no status of evotune";
}

const char *evotune_rule_text(int rule)
{
	switch (rule) {
	case EVOTUNE_EXACT:
		return "tuned for this shape";
	case EVOTUNE_NEAREST:
		return "tuned for the nearest shape";
	case EVOTUNE_WISDOM:
		return "named by a wisdom file";
	case EVOTUNE_BASELINE:
		return "the baseline, which was not tuned";
	case EVOTUNE_REFERENCE:
		return "the reference, in double precision and slow";
	case EVOTUNE_PREFERRED:
		return "preferred by the caller";
	case EVOTUNE_NONE:
		return "nothing serves this problem";
	}
	return "no rule of evotune";
}
