/* Heat spreads on a plate whose edge stays at 0 degrees, with a kernel from an exported library.
 * A wave with one hill is an eigenvector of a step, so that its height is known at any time.
 * Exit status: 0; 1 when the height is wrong; 2 when the kernel cannot be called. */
#include <evotune.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { H = 101, W = 201, STEPS = 2000 };

int main(void)
{
	const double pi = acos(-1), rate = 0.2; /* as in examples/kernel/kernel.toml */
	float *plate = malloc(H * W * sizeof *plate), *next = malloc(H * W * sizeof *next);
	if (!plate || !next)
		return 2;
	for (int y = 0; y < H; y++)
		for (int x = 0; x < W; x++)
			plate[y * W + x] = (float)(100 * sin(pi * y / (H - 1)) * sin(pi * x / (W - 1)));

	struct evotune_choice choice;
	if (evotune_heat_choice(H, W, &choice) == EVOTUNE_OK)
		printf("kernel %s\n", choice.candidate);
	for (int i = 0; i < STEPS; i++) {
		int status = evotune_heat(H, W, plate, next);
		if (status != EVOTUNE_OK) {
			fprintf(stderr, "evotune_heat: %s\n", evotune_status_text(status));
			return 2;
		}
		float *done = plate;
		plate = next;
		next = done;
	}
	double got = plate[H / 2 * W + W / 2];
	double want = 100 * pow(1 - rate * (4 - 2 * cos(pi / (H - 1)) - 2 * cos(pi / (W - 1))), STEPS);
	printf("after %d steps the middle has %.3f degrees, %.3f is right\n", STEPS, got, want);
	free(plate);
	free(next);
	return fabs(got - want) > 1e-3 * want;
}
