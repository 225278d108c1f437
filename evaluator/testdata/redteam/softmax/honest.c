/* Honest: the baseline. */
#include "rows.h"

void softmax(int64_t ROWS, int64_t COLS, const float *X, float *Y) { all_rows(ROWS, COLS, X, Y); }
