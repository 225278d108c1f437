// A cublasLt for the GPU beside, which proposes eleven algorithms.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gpu_launch(double us);
int gpu_capturing(void);

static const struct {
	double us;
	int state;  // of the proposal
	int status; // of a launch
	int gives;
	int captured; // status of a launch in a graph
	int tires;    // of launches outside of graphs, one fails: that many
} algorithms[] = {
	{.us = 7, .status = 15}, // proposed first, and cannot be run
	{.us = 7.5, .gives = 1, .captured = 15}, // nor can this one, in graphs
	{.us = 10, .gives = 1},
	{.us = 9.5, .gives = 1},
	{.us = 8, .gives = 2}, // fastest, and wrong
	{.us = 30, .gives = 1},
	{.us = 1, .state = 15}, // no proposal
	{.us = 8.9, .gives = 1},
	{.us = 6, .status = 13}, // cannot be run
	{.us = 8.95, .gives = 1},
	{.us = 8.5, .gives = 1, .tires = 3}, // cannot be run when it is compared
};
enum { SLOW = 5 }; // runs in searches alone
enum { N = sizeof algorithms / sizeof *algorithms };

struct heuristic {
	uint64_t algorithm[8];
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
};

static int ran[N]; // outside of graphs
static uint64_t bias;

size_t cublasLtGetVersion(void) { return 120901; }
int cublasLtCreate(void **handle) { return *handle = &bias, 0; }
int cublasLtDestroy(void *handle) { return 0; }
int cublasLtMatmulDescCreate(void **desc, int compute, int scale) { return *desc = malloc(1), 0; }
int cublasLtMatmulDescDestroy(void *desc) { return free(desc), 0; }
int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value, size_t bytes)
{
	if (attribute == 8)
		memcpy(&bias, value, bytes);
	return 0;
}
int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld) { return *layout = malloc(1), 0; }
int cublasLtMatrixLayoutDestroy(void *layout) { return free(layout), 0; }
int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t bytes) { return 0; }
int cublasLtMatmulPreferenceCreate(void **preference) { return *preference = malloc(1), 0; }
int cublasLtMatmulPreferenceDestroy(void *preference) { return free(preference), 0; }
int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t bytes) { return 0; }
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int most, struct heuristic *list, int *found)
{
	for (int i = 0; i < N && i < most; i++) {
		memset(&list[i], 0, sizeof list[i]);
		list[i].algorithm[0] = i;
		list[i].state = algorithms[i].state;
	}
	*found = N < most ? N : most;
	return 0;
}
int cublasLtMatmulAlgoConfigGetAttribute(const uint64_t *algorithm, int attribute, void *value, size_t bytes, size_t *written)
{
	uint64_t v = attribute == 0 ? algorithm[0] : attribute;
	memcpy(value, &v, bytes);
	return attribute == 6 ? 7 : 0; // it does not tell of stages
}
int cublasLtMatmul(void *handle, void *desc, const float *alpha, const uint16_t *a, void *la, const uint16_t *b, void *lb, const float *beta, const uint16_t *c,
                   void *lc, uint16_t *d, void *ld, const uint64_t *algorithm, void *workspace, size_t bytes, void *stream)
{
	int i = algorithm[0];
	if (algorithms[i].status)
		return algorithms[i].status;
	if (gpu_capturing() && algorithms[i].captured)
		return algorithms[i].captured;
	if (!gpu_capturing() && algorithms[i].tires && ran[i] % algorithms[i].tires == algorithms[i].tires - 1)
		return ran[i]++, 13;
	if (*alpha != 1 || *beta != 0 || c != d || !workspace || !bytes || !bias || bias % 256) {
		fprintf(stderr, "wrong arguments of cublasLtMatmul\n");
		exit(1);
	}
	if (gpu_capturing() && !ran[i]) {
		fprintf(stderr, "an algorithm runs in a graph first\n");
		exit(1);
	}
	if (!gpu_capturing()) {
		ran[i]++;
		if (i == SLOW)
			fprintf(stderr, "the slow one ran\n");
	}
	d[0] = algorithms[i].gives;
	gpu_launch(algorithms[i].us);
	return 0;
}
