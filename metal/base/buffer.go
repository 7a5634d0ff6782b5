package base

import (
	"fmt"
	"unsafe"

	"headroom/metal"
	"headroom/metal/msl"
)

// CheckLength returns an error that wraps metal.ErrBufferLength unless a buffer may have the given
// length in bytes. longest is the device's MaxBufferLength, label is the buffer's.
func CheckLength(label string, bytes int, longest uint64) error {
	if bytes <= 0 || uint64(bytes) > longest {
		return fmt.Errorf("buffer %q: got %d bytes, expected 1 to %d: %w", label, bytes, longest,
			metal.ErrBufferLength)
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
