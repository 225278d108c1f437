/* Names of functions, messages and an error with escape sequences of terminals:
 * a title, a color and a line that erases itself. Attacks: what is printed of a
 * diagnostic. Harm: a terminal that obeys, a log that shows another text. */
#include "product.h"
#pragma message "]0;redteam[2K[1A[31mwarning"
#error "[2J[H]0;redteamall kernels are correct[8m"

void product(PARAMETERS) { all_rows(ARGUMENTS); }
