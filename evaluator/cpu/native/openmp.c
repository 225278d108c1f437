/*
 * Tells the thread sanitizer what OpenMP orders. gcc's libgomp is not built for it:
 * its threads seem to race wherever it alone makes one wait for another. The linker's
 * --wrap has a candidate call these functions, which call libgomp and annotate. They
 * promise no more order than OpenMP does, so that races stay visible.
 */
void __tsan_acquire(void *);
void __tsan_release(void *);

/* What was called before a barrier comes before what is called behind it. By turns
 * there are two, lest a thread that is one barrier ahead seems to come before those
 * that have not left the last one. */
static char barriers[2][8];
static __thread unsigned turn;

static char critical[8], atomic[8];

struct region {
	void (*body)(void *);
	void *data;
	char begin[8], end[8];
};

static void inside(void *p)
{
	struct region *r = p;
	const unsigned outer = turn;
	__tsan_acquire(r->begin);
	turn = 0;
	r->body(r->data);
	turn = outer;
	__tsan_release(r->end);
}

#define PARALLEL(NAME, DECLARED, PASSED)                                  \
	void __real_##NAME(void (*)(void *), void *, unsigned DECLARED); \
	void __wrap_##NAME(void (*body)(void *), void *data, unsigned threads DECLARED) \
	{                                                                 \
		struct region r = {body, data, {0}, {0}};                 \
		__tsan_release(r.begin);                                  \
		__real_##NAME(inside, &r, threads PASSED);                \
		__tsan_acquire(r.end);                                    \
	}
#define COMMA ,
#define LOOP(NAME)                                                               \
	PARALLEL(GOMP_parallel_loop_##NAME,                                      \
	         COMMA long from COMMA long to COMMA long step COMMA long chunk COMMA unsigned flags, \
	         COMMA from COMMA to COMMA step COMMA chunk COMMA flags)

PARALLEL(GOMP_parallel, COMMA unsigned flags, COMMA flags)
LOOP(dynamic)
LOOP(guided)
LOOP(nonmonotonic_dynamic)
LOOP(nonmonotonic_guided)

#define BARRIER(NAME)                              \
	void __real_##NAME(void);                  \
	void __wrap_##NAME(void)                   \
	{                                          \
		char *place = barriers[turn++ % 2]; \
		__tsan_release(place);             \
		__real_##NAME();                   \
		__tsan_acquire(place);             \
	}

BARRIER(GOMP_barrier)
BARRIER(GOMP_loop_end)

#define LOCK(START, END, DECLARED, PASSED, PLACE) \
	void __real_##START(DECLARED);            \
	void __real_##END(DECLARED);              \
	void __wrap_##START(DECLARED)             \
	{                                         \
		__real_##START(PASSED);           \
		__tsan_acquire(PLACE);            \
	}                                         \
	void __wrap_##END(DECLARED)               \
	{                                         \
		__tsan_release(PLACE);            \
		__real_##END(PASSED);             \
	}

LOCK(GOMP_critical_start, GOMP_critical_end, void, , critical)
LOCK(GOMP_critical_name_start, GOMP_critical_name_end, void **name, name, name)
LOCK(GOMP_atomic_start, GOMP_atomic_end, void, , atomic)
