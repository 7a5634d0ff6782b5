package darwin

// Objective-C from Go: frameworks, selectors, messages, strings, errors.

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/ebitengine/purego/objc"
)

var (
	messageSend uintptr // objc_msgSend
	// objc_msgSend for methods that return a double
	sendDouble       func(objc.ID, objc.SEL) float64
	poolPush         func() unsafe.Pointer
	poolPop          func(unsafe.Pointer)
	createDevice     func() objc.ID
	loadFrameworks   = sync.OnceValue(load)
	selectors        sync.Map // name -> objc.SEL
	frameworkLibrary = map[string]uintptr{}
)

// load loads the frameworks. Without CoreGraphics a command-line tool gets no device
// (https://developer.apple.com/documentation/metal/mtlcreatesystemdefaultdevice()).
func load() error {
	for _, path := range []string{
		"/usr/lib/libobjc.A.dylib",
		"/System/Library/Frameworks/Foundation.framework/Foundation",
		"/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics",
		"/System/Library/Frameworks/Metal.framework/Metal",
	} {
		handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err != nil {
			return fmt.Errorf("loading %s: %w", path, err)
		}
		frameworkLibrary[path] = handle
	}
	runtimeLibrary := frameworkLibrary["/usr/lib/libobjc.A.dylib"]
	var err error
	if messageSend, err = purego.Dlsym(runtimeLibrary, "objc_msgSend"); err != nil {
		return err
	}
	purego.RegisterFunc(&sendDouble, messageSend)
	purego.RegisterLibFunc(&poolPush, runtimeLibrary, "objc_autoreleasePoolPush")
	purego.RegisterLibFunc(&poolPop, runtimeLibrary, "objc_autoreleasePoolPop")
	purego.RegisterLibFunc(&createDevice,
		frameworkLibrary["/System/Library/Frameworks/Metal.framework/Metal"],
		"MTLCreateSystemDefaultDevice")
	return nil
}

// selector returns the selector of that name
// (https://developer.apple.com/documentation/objectivec/sel_registername(_:)).
func selector(name string) objc.SEL {
	if s, ok := selectors.Load(name); ok {
		return s.(objc.SEL)
	}
	s := objc.RegisterName(name)
	selectors.Store(name, s)
	return s
}

// send sends a message whose arguments and result are integers or pointers. It looks up the
// selector, so it is not for the hot path.
//
//go:uintptrescapes
func send(to objc.ID, name string, arguments ...uintptr) objc.ID {
	all := make([]uintptr, 0, 10)
	all = append(append(all, uintptr(to), uintptr(selector(name))), arguments...)
	r, _, _ := purego.SyscallN(messageSend, all...)
	return objc.ID(r)
}

// class returns a class as the receiver of a message, 0 if the system does not have it.
func class(name string) objc.ID { return objc.ID(objc.GetClass(name)) }

// responds reports whether an object has a method, which older systems may lack
// (https://developer.apple.com/documentation/objectivec/nsobjectprotocol/responds(to:)).
func responds(to objc.ID, name string) bool {
	return to != 0 && truth(send(to, "respondsToSelector:", uintptr(selector(name))))
}

// truth converts a BOOL: only the low byte of the register counts.
func truth(v objc.ID) bool { return v&0xff != 0 }

// retain takes ownership of an autoreleased object. release gives it up. Both accept nil.
func retain(o objc.ID) objc.ID { return send(o, "retain") }
func release(o objc.ID)        { send(o, "release") }

// inPool runs f in a new autorelease pool. Pools belong to threads, so the goroutine is locked to
// its thread meanwhile (https://developer.apple.com/documentation/foundation/nsautoreleasepool).
func inPool(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pool := poolPush()
	defer poolPop(pool)
	f()
}

// nsString returns an autoreleased copy of s
// (https://developer.apple.com/documentation/foundation/nsstring/1497379-stringwithutf8string).
func nsString(s string) objc.ID {
	b := append([]byte(s), 0)
	r := send(class("NSString"), "stringWithUTF8String:", uintptr(unsafe.Pointer(&b[0])))
	runtime.KeepAlive(b)
	return r
}

// goString returns a copy of an NSString, "" for nil.
func goString(s objc.ID) string {
	if s == 0 {
		return ""
	}
	c := pointer(send(s, "UTF8String"))
	if c == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(c, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(c), n))
}

// pointer converts an address that Objective-C returned. The garbage collector does not manage that
// memory.
func pointer(v objc.ID) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&v)) }

// nsError converts an NSError: description, domain and code
// (https://developer.apple.com/documentation/foundation/nserror).
func nsError(e objc.ID) error {
	if e == 0 {
		return errors.New("Metal gave no reason")
	}
	return fmt.Errorf("%s (%s %d)", goString(send(e, "localizedDescription")),
		goString(send(e, "domain")), int(send(e, "code")))
}
