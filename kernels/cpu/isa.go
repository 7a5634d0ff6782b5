package cpu

import (
	"runtime"

	"golang.org/x/sys/cpu"
)

// ISA is an instruction set that kernels are compiled for. The numbers are those of
// kernels/common/foreach_isa.h.
type ISA int32

// Sets of one processor family are ordered: each has what the one before it has.
const (
	Auto    ISA = 0 // let Best decide
	Generic ISA = 1 // plain Go: built without cgo, or a processor older than any set below
	AVX2    ISA = 2 // with FMA, F16C, BMI2
	AVX512  ISA = 3 // F, BW, DQ, VL
	// with VNNI and VBMI: integer dot products, any bit width unpacked in one step
	AVX512VNNI ISA = 4
	AMX        ISA = 5 // with Intel's matrix unit for bytes as well
	NEON       ISA = 6 // arm64 with dot products
)

func (i ISA) String() string {
	return [...]string{"automatic", "plain Go", "AVX2", "AVX-512", "AVX-512 VNNI",
		"AVX-512 VNNI and AMX", "NEON"}[i]
}

// Best is the best set this machine and this build have.
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

// Available lists every set that can run here, Generic first: tests go through all of them.
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
