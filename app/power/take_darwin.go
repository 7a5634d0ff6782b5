package power

// A power assertion of IOKit
// (https://developer.apple.com/documentation/iokit/1557134-iopmassertioncreatewithname). It
// prevents idle sleep, but not sleep that the user requests, for example by closing the lid.
// `pmset -g assertions` lists it under Headroom's name.

import (
	"fmt"
	"sync"

	"github.com/ebitengine/purego"
)

const (
	assertionType = "PreventUserIdleSystemSleep" // kIOPMAssertPreventUserIdleSystemSleep
	assertionOn   = uint32(255)                  // kIOPMAssertionLevelOn
	utf8Encoding  = uint32(0x08000100)           // kCFStringEncodingUTF8
)

// iokit has the functions of IOKit and Core Foundation that take uses.
type iokit struct {
	create       func(assertion uintptr, level uint32, name uintptr, id *uint32) int32
	release      func(id uint32) int32
	createString func(allocator uintptr, text string, encoding uint32) uintptr
	releaseValue func(value uintptr)
}

var system = sync.OnceValues(func() (*iokit, error) {
	power, err := purego.Dlopen("/System/Library/Frameworks/IOKit.framework/IOKit",
		purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, err
	}
	core, err := purego.Dlopen("/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation",
		purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, err
	}
	s := new(iokit)
	purego.RegisterLibFunc(&s.create, power, "IOPMAssertionCreateWithName")
	purego.RegisterLibFunc(&s.release, power, "IOPMAssertionRelease")
	purego.RegisterLibFunc(&s.createString, core, "CFStringCreateWithCString")
	purego.RegisterLibFunc(&s.releaseValue, core, "CFRelease")
	return s, nil
})

// take creates the assertion.
func take() (release func() error, err error) {
	s, err := system()
	if err != nil {
		return nil, fmt.Errorf("loading IOKit: %w", err)
	}
	kind, name := s.createString(0, assertionType, utf8Encoding),
		s.createString(0, "Headroom is answering a request", utf8Encoding)
	if kind == 0 || name == 0 {
		return nil, fmt.Errorf("creating strings for IOKit: out of memory")
	}
	defer s.releaseValue(kind)
	defer s.releaseValue(name)
	id := new(uint32)
	if code := s.create(kind, assertionOn, name, id); code != 0 {
		return nil, fmt.Errorf("IOPMAssertionCreateWithName: %#x", uint32(code))
	}
	return func() error {
		if code := s.release(*id); code != 0 {
			return fmt.Errorf("IOPMAssertionRelease: %#x", uint32(code))
		}
		return nil
	}, nil
}
