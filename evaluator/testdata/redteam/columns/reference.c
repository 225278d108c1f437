void reference(int64_t ROWS, int64_t COLS, const double *X, const double *W, double *Y)
{
	for (int64_t c = 0; c < COLS; c++) {
		Y[c] = 0;
		for (int64_t r = 0; r < ROWS; r++)
			Y[c] += X[r * COLS + c] / ROWS;
		Y[c] *= W[c];
	}
}
