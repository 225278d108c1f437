/* The choice among kernels: by device, by shape, by what wisdom files say. Part of a
 * library that evotune exported; private to it. */
#ifndef EVOTUNE_DISPATCH_H
#define EVOTUNE_DISPATCH_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Linkers see these names in a static library: they have its prefix there. */
#define evo_choose evotune_private_choose
#define evo_device_name evotune_private_device_name
#define evo_epoch_ evotune_private_epoch_
#define evo_fits evotune_private_fits
#define evo_kernels evotune_private_kernels
#define evo_plugin evotune_private_plugin
#define evo_preferred evotune_private_preferred
#define evo_rank evotune_private_rank
#define evo_wisdom_each evotune_private_wisdom_each
#define evo_wisdom_load evotune_private_wisdom_load

/* The most dimensions that a problem has. */
#define EVO_MAX_DIMS 32

/* A function of any signature; it is cast back before it is called. */
typedef void (*evo_function)(void);

/* A shape that a kernel was tuned for. logs[i] is log2(1 + dims[i]), ns the time of a launch. */
struct evo_shape {
	const char *name;
	const int64_t *dims;
	const double *logs;
	double ns;
	int instead; /* what is called here because finals found nothing faster */
};

/* What is called instead of a kernel. */
enum { EVO_NOTHING, EVO_BASELINE, EVO_ROUTINE };

/* A compiled kernel. */
struct evo_variant {
	const char *candidate; /* its name in the store; "baseline" for one that was not tuned */
	const char *device;    /* the device it was tuned on; NULL for a baseline */
	int tuned;             /* 0: a baseline, for shapes and devices that nothing else serves */
	int routine;           /* CUDA: that baseline is a vendor's routine, see vendor.c */
	int capability;        /* CUDA: ten times the compute capability of that device */
	const uint64_t *needs; /* CPU: the instruction sets it was compiled for, see cpu.h */
	int (*supports)(const int64_t *dims);
	const struct evo_shape *shapes;
	int shape_count;
	evo_function code;  /* CPU: the kernel */
	const void *launch; /* CUDA: how to launch it */
};

/* A problem with its kernels. */
struct evo_kernel {
	const char *name;
	int dim_count;
	const char *const *dim_names;
	const struct evo_variant *variants;
	int variant_count;
};

/* A line of a wisdom file. */
struct evo_line {
	const struct evo_kernel *kernel;
	int64_t dims[EVO_MAX_DIMS];
	char device[128]; /* "*": any */
	int64_t geometry[8]; /* CUDA: grid, block, shared bytes, workspace bytes */
	const struct evo_variant *variant;
};

/* The outcome of a choice. variant is NULL when no kernel serves the problem. */
struct evo_pick {
	uint64_t epoch; /* 0: nothing was chosen yet */
	int device;
	const char *preferred; /* what evo_preferred was */
	int rule; /* an enum evotune_rule of the library's header */
	double distance;
	const struct evo_variant *variant;
	const struct evo_shape *shape;
	const struct evo_line *line;
};

/* It changes whenever an earlier choice may no longer hold. */
extern _Atomic uint64_t evo_epoch_;
static inline uint64_t evo_epoch(void) { return atomic_load_explicit(&evo_epoch_, memory_order_acquire); }

/* The candidate that this thread prefers, of a kernel of this library; NULL for none. See evotune_prefer. */
const char *evo_preferred(void);

/* Chooses for a device, by number. */
void evo_choose(const struct evo_kernel *k, int device, const int64_t *dims, struct evo_pick *pick);

/* Reads a wisdom file; see evotune_wisdom_load. */
int evo_wisdom_load(const char *path, void (*warn)(const char *message, void *user), void *user);

/* Calls f with the kernel of every line of wisdom that is for a device, until it returns something
 * else than 0, which is returned then. */
int evo_wisdom_each(int device, int (*f)(const struct evo_variant *v, int device));

/* Sums and products that stop at the largest number, for sizes that may be any. */
static inline int64_t evo_add(int64_t a, int64_t b)
{
	int64_t r;
	return !__builtin_add_overflow(a, b, &r) ? r : a < 0 ? INT64_MIN : INT64_MAX;
}
static inline int64_t evo_sub(int64_t a, int64_t b)
{
	int64_t r;
	return !__builtin_sub_overflow(a, b, &r) ? r : a < 0 ? INT64_MIN : INT64_MAX;
}
static inline int64_t evo_mul(int64_t a, int64_t b)
{
	int64_t r;
	return !__builtin_mul_overflow(a, b, &r) ? r : (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
}

/* The most bytes of an array, beyond any memory. */
#define EVO_MAX_BYTES (INT64_C(1) << 56)

/* Whether there can be an array of these axes, none of them negative. */
static inline int evo_array(const int64_t *axes, int count, int64_t element)
{
	int64_t bytes = element;
	for (int i = 0; i < count; i++) {
		if (axes[i] < 0)
			return 0;
		bytes = evo_mul(bytes, axes[i]);
	}
	return bytes <= EVO_MAX_BYTES;
}

/* The problems of the library, ended by a NULL: from the generated source. */
extern const struct evo_kernel *const evo_kernels[];

/* What differs between processors and GPUs. */

/* How near the device that a variant was tuned on is to this one: 0 the same name, then
 * farther; negative when the variant cannot run here. */
int evo_rank(const struct evo_variant *v, int device);
/* Whether a variant that can run on a device computes a shape there. */
int evo_fits(const struct evo_variant *v, int device, const int64_t *dims);
/* The name of a device, for wisdom. */
const char *evo_device_name(int device);
/* A variant that is not in the library, from a file beside the wisdom file; NULL with a
 * reason when there is none. */
const struct evo_variant *evo_plugin(const char *folder, const struct evo_kernel *k, const char *candidate, const char **why);

#endif
