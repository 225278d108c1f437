/* Computes nothing and sends the very answer that the harness would send, with
 * the nonce of the run, which it finds in the harness's memory. Class: the
 * result is forged by one who knows everything. Stopped by: the answer says
 * only that the kernel has returned; whether its output is right is judged by
 * evotune, in another process, which finds the poison. */
#include "harness.h"
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	(void)M, (void)N, (void)K, (void)A, (void)B, (void)C, (void)alpha;
	forge(command_under_way(), 1, 1000);
}
