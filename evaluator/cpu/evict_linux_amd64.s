#include "textflag.h"

// func evictLines(b []byte, weak bool)
TEXT ·evictLines(SB), NOSPLIT, $0-25
	MOVQ    b_base+0(FP), AX
	MOVQ    b_len+8(FP), CX
	ADDQ    AX, CX
	ANDQ    $~63, AX
	MOVBLZX weak+24(FP), DX
	TESTL   DX, DX
	JNE     weakly

strongly:
	CMPQ    AX, CX
	JAE     done
	CLFLUSH (AX)
	ADDQ    $64, AX
	JMP     strongly

weakly:
	CMPQ       AX, CX
	JAE        done
	CLFLUSHOPT (AX)
	ADDQ       $64, AX
	JMP        weakly

done:
	MFENCE
	RET
