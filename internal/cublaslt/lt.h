// The functions of cublasLt that are called, by its documented interface:
// F(field, symbol, result, parameters). The library is opened at run time and
// its header is not needed to build, so whoever includes this says what the
// names of types stand for.
#define LT_FUNCTIONS(F) \
	F(create, cublasLtCreate, LT_STATUS, (LT_HANDLE *)) \
	F(destroy, cublasLtDestroy, LT_STATUS, (LT_HANDLE)) \
	F(version, cublasLtGetVersion, size_t, (void)) \
	F(desc_create, cublasLtMatmulDescCreate, LT_STATUS, (LT_DESC *, LT_COMPUTE, LT_TYPE)) \
	F(desc_destroy, cublasLtMatmulDescDestroy, LT_STATUS, (LT_DESC)) \
	F(desc_set, cublasLtMatmulDescSetAttribute, LT_STATUS, (LT_DESC, LT_DESC_ATTRIBUTE, const void *, size_t)) \
	F(layout_create, cublasLtMatrixLayoutCreate, LT_STATUS, (LT_LAYOUT *, LT_TYPE, uint64_t, uint64_t, int64_t)) \
	F(layout_destroy, cublasLtMatrixLayoutDestroy, LT_STATUS, (LT_LAYOUT)) \
	F(layout_set, cublasLtMatrixLayoutSetAttribute, LT_STATUS, (LT_LAYOUT, LT_LAYOUT_ATTRIBUTE, const void *, size_t)) \
	F(preference_create, cublasLtMatmulPreferenceCreate, LT_STATUS, (LT_PREFERENCE *)) \
	F(preference_destroy, cublasLtMatmulPreferenceDestroy, LT_STATUS, (LT_PREFERENCE)) \
	F(preference_set, cublasLtMatmulPreferenceSetAttribute, LT_STATUS, (LT_PREFERENCE, LT_PREFERENCE_ATTRIBUTE, const void *, size_t)) \
	F(heuristic, cublasLtMatmulAlgoGetHeuristic, LT_STATUS, (LT_HANDLE, LT_DESC, LT_LAYOUT, LT_LAYOUT, LT_LAYOUT, LT_LAYOUT, \
	                                                         LT_PREFERENCE, int, LT_HEURISTIC *, int *)) \
	F(config, cublasLtMatmulAlgoConfigGetAttribute, LT_STATUS, (const LT_ALGORITHM *, LT_CONFIG_ATTRIBUTE, void *, size_t, size_t *)) \
	F(matmul, cublasLtMatmul, LT_STATUS, (LT_HANDLE, LT_DESC, const void *, const void *, LT_LAYOUT, const void *, LT_LAYOUT, const void *, \
	                                      const void *, LT_LAYOUT, void *, LT_LAYOUT, const LT_ALGORITHM *, void *, size_t, LT_STREAM))

// What its search for algorithms gives of each.
struct lt_result {
	uint64_t algorithm[8], workspace;
	int state;
	float waves;
	int reserved[4];
};
