/* Honest: the twin of those that compute several launches at once. */
#include "honest.c"
