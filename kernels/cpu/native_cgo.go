//go:build cgo

package cpu

// native says that the C kernels are part of this build.
const native = true
