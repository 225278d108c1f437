/* Includes a file of the user: it is no C, and the compiler prints its lines as
 * diagnostics. Attacks: what reaches a report or another machine through a
 * diagnostic. Harm: the contents of any file that the user can read. */
#include "product.h"
#include "/etc/passwd"

void product(PARAMETERS) { all_rows(ARGUMENTS); }
