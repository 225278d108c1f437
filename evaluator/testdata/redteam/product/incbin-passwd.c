/* Puts a file of the user into its constants with the assembler, and is right
 * otherwise: the binary, which is kept and exported, holds the file. Attacks:
 * files are read from the folder alone. */
#include "product.h"
__asm__(".pushsection .rodata\n.global redteam_file\nredteam_file:\n.incbin \"/etc/passwd\"\n.byte 0\n.popsection");
extern const volatile char redteam_file[];

void product(PARAMETERS)
{
	(void)redteam_file[0];
	all_rows(ARGUMENTS);
}
