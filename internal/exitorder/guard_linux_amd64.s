#include "textflag.h"

#define SYS_read 0
#define SYS_nanosleep 35
#define SYS_clone 56
#define SYS_prctl 157
#define SYS_exit_group 231
#define SYS_dup3 292
#define SYS_close_range 436

#define CLONE_VM 0x100
#define PR_SET_NAME 15
#define EINTR 4

DATA name<>+0(SB)/8, $"holdfast"
DATA name<>+8(SB)/8, $"-guard\x00\x00"
GLOBL name<>(SB), RODATA, $16

DATA pause<>+0(SB)/8, $0          // seconds
DATA pause<>+8(SB)/8, $100000000  // nanoseconds
GLOBL pause<>(SB), RODATA, $16

// func guard(stack *byte, pipe uintptr) int
//
// A system call changes AX, CX and R11 only. The guard has no Go stack: nothing here may use SP once it runs.
TEXT ·guard(SB), NOSPLIT, $0-24
	MOVQ stack+0(FP), R13
	MOVQ pipe+8(FP), R12
	MOVQ $CLONE_VM, DI
	LEAQ 4096(R13), SI // stackSize
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	MOVQ $SYS_clone, AX
	SYSCALL
	TESTQ AX, AX
	JEQ  child
	MOVQ AX, ret+16(FP)
	RET

child:
	MOVQ $PR_SET_NAME, DI
	LEAQ name<>(SB), SI
	MOVQ $SYS_prctl, AX
	SYSCALL

	// It keeps the pipe, as 0, and closes everything else. If it cannot do that, it must end.
	MOVQ R12, DI
	XORL SI, SI
	XORL DX, DX
	MOVQ $SYS_dup3, AX
	SYSCALL
	MOVQ $1, DI
	MOVL $0xffffffff, SI
	XORL DX, DX
	MOVQ $SYS_close_range, AX
	SYSCALL
	TESTQ AX, AX
	JNE  exit

wait:
	XORL DI, DI
	MOVQ R13, SI
	MOVQ $1, DX
	MOVQ $SYS_read, AX
	SYSCALL
	CMPQ AX, $-EINTR
	JEQ  wait

	// The end of the pipe is one of many descriptors that are being closed. The memory stays until all are.
	LEAQ pause<>(SB), DI
	XORL SI, SI
	MOVQ $SYS_nanosleep, AX
	SYSCALL

exit:
	XORL DI, DI
	MOVQ $SYS_exit_group, AX
	SYSCALL
	INT  $3
