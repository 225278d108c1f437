/* says-what-it-finds that also searches three pages on both sides of that of its answer: they may not be mapped. */
#include "says-what-it-finds.cu"
