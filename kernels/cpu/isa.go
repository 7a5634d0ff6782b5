package cpu

import (
	"runtime"

	"golang.org/x/sys/cpu"
)

// ISA is an instruction set that kernels are compiled for. kernels/common/foreach_isa.h has the
// same numbers.
type ISA int32

// The instruction sets. Those of one processor family are ordered: each includes the one before.
const (
	Auto    ISA = 0 // let Best decide
	Generic ISA = 1 // plain Go: built without cgo, or a processor older than any set below
	AVX2    ISA = 2 // with FMA, F16C, BMI2
	AVX512  ISA = 3 // F, BW, DQ, VL
	// AVX512VNNI adds VNNI and VBMI: integer dot products, and any bit width unpacked in one step.
	AVX512VNNI ISA = 4
	AMX        ISA = 5 // adds Intel's matrix unit for bytes and bfloat16
	NEON       ISA = 6 // arm64 with dot products
)

func (i ISA) String() string {
	return [...]string{"automatic", "plain Go", "AVX2", "AVX-512", "AVX-512 VNNI",
		"AVX-512 VNNI and AMX", "NEON"}[i]
}

// Best returns the best set that this machine and this build have.
func Best() ISA {
	if !native {
		return Generic
	}
	x := cpu.X86
	switch {
	case runtime.GOARCH == "arm64" && (runtime.GOOS == "darwin" || cpu.ARM64.HasASIMDDP):
		return NEON
	case !(x.HasAVX2 && x.HasFMA && x.HasBMI2):
		return Generic
	case !(x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL):
		return AVX2
	case !(x.HasAVX512VNNI && x.HasAVX512VBMI):
		return AVX512
	case !matrixUnit():
		return AVX512VNNI
	}
	return AMX
}

// Available returns every set that can run here, Generic first. Tests try all of them.
func Available() []ISA {
	best := Best()
	switch best {
	case Generic:
		return []ISA{Generic}
	case NEON:
		return []ISA{Generic, NEON}
	}
	list := []ISA{Generic}
	for i := AVX2; i <= best; i++ {
		list = append(list, i)
	}
	return list
}
