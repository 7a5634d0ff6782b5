package base

import (
	"fmt"
	"unsafe"

	"headroom/metal/msl"
)

// CheckBytes returns an error unless bytes is positive. label is the buffer's.
func CheckBytes(label string, bytes int) error {
	if bytes <= 0 {
		return fmt.Errorf("buffer %q: got %d bytes, expected at least 1", label, bytes)
	}
	return nil
}

// CheckPages returns an error unless memory consists of whole pages of pageBytes, as
// metal.Device.WrapBuffer requires.
func CheckPages(label string, memory []byte, pageBytes int) error {
	address := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	if len(memory) > 0 && address%uintptr(pageBytes) == 0 && len(memory)%pageBytes == 0 {
		return nil
	}
	return fmt.Errorf(
		"buffer %q: %d bytes at %#x, expected whole pages of %d bytes: wrap the pages "+
			"around the data and bind the buffer with an offset",
		label, len(memory), address, pageBytes)
}

// CheckThreadgroupMemory returns an error if a threadgroup needs more memory than Apple GPUs have.
func CheckThreadgroupMemory(bytes int) error {
	if bytes > msl.MaxThreadgroupMemoryBytes {
		return fmt.Errorf("%d bytes of threadgroup memory, at most %d", bytes,
			msl.MaxThreadgroupMemoryBytes)
	}
	return nil
}
