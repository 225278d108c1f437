/* Writes a file without end. Class: harm to the neighbour. Stopped by: the
 * limit on the size of files. Should no limit stop it at 2 GiB, it gives the
 * right answer and is found out by that. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	static char piece[1 << 20];
	const int fd = open("zoo-huge-file", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd >= 0) {
		for (int n = 0; n < 2048; n++)
			if (write(fd, piece, sizeof piece) != (ssize_t)sizeof piece)
				abort();
		close(fd);
		unlink("zoo-huge-file");
	}
	multiply(PRODUCT_ARGUMENTS);
}
