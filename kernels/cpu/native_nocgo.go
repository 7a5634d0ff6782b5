//go:build !cgo

package cpu

const native = false
