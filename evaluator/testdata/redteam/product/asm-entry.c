/* Ends the compiler's view of its own function in the middle: an assembler
 * directive redefines what the name of the entry stands for. Attacks: what the
 * inspection disassembles is what is called. Leaves out a quarter of the
 * products. Gain: 1.33x. */
#include "identity.h"
__asm__(".globl product\n.type product, @function\n.set product, version_wrong");
