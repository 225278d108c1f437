void reference(int64_t ROWS, int64_t COLS, const double *X, const double *W, double *Y)
{
	for (int64_t r = 0; r < ROWS; r++) {
		Y[r] = 0;
		for (int64_t c = 0; c < COLS; c++)
			Y[r] += X[r * COLS + c] / COLS;
		Y[r] *= W[r];
	}
}
