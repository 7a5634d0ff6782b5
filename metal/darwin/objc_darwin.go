package darwin

// Objective-C from Go: loading the frameworks, selectors, messages, strings, errors.

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

// load opens what is needed. CoreGraphics comes first: without it a command-line tool gets no
// device (https://developer.apple.com/documentation/metal/mtlcreatesystemdefaultdevice()).
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

// selector is the registered selector of that name
// (https://developer.apple.com/documentation/objectivec/sel_registername(_:)).
func selector(name string) objc.SEL {
	if s, ok := selectors.Load(name); ok {
		return s.(objc.SEL)
	}
	s := objc.RegisterName(name)
	selectors.Store(name, s)
	return s
}

// send sends a message whose arguments and result are integers or pointers. Not for the hot path:
// it looks the selector up.
//
//go:uintptrescapes
func send(to objc.ID, name string, arguments ...uintptr) objc.ID {
	all := make([]uintptr, 0, 10)
	all = append(append(all, uintptr(to), uintptr(selector(name))), arguments...)
	r, _, _ := purego.SyscallN(messageSend, all...)
	return objc.ID(r)
}

// class is a class as the receiver of a message, 0 if this system has no such class.
func class(name string) objc.ID { return objc.ID(objc.GetClass(name)) }

// responds tells whether an object understands a message that newer systems brought
// (https://developer.apple.com/documentation/objectivec/nsobjectprotocol/responds(to:)).
func responds(to objc.ID, name string) bool {
	return to != 0 && truth(send(to, "respondsToSelector:", uintptr(selector(name))))
}

// truth is a BOOL: only the low byte of the register counts.
func truth(v objc.ID) bool { return v&0xff != 0 }

// retain takes ownership of an autoreleased object; release gives it up. Both let nil pass.
func retain(o objc.ID) objc.ID { return send(o, "retain") }
func release(o objc.ID)        { send(o, "release") }

// inPool runs f with an autorelease pool of its own. Pools belong to threads, so the goroutine
// keeps its thread meanwhile
// (https://developer.apple.com/documentation/foundation/nsautoreleasepool).
func inPool(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pool := poolPush()
	defer poolPop(pool)
	f()
}

// nsString is an autoreleased copy of s
// (https://developer.apple.com/documentation/foundation/nsstring/1497379-stringwithutf8string).
func nsString(s string) objc.ID {
	b := append([]byte(s), 0)
	r := send(class("NSString"), "stringWithUTF8String:", uintptr(unsafe.Pointer(&b[0])))
	runtime.KeepAlive(b)
	return r
}

// goString copies an NSString; "" for nil.
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

// pointer is an address that Objective-C returned: memory that Go's collector does not know.
func pointer(v objc.ID) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&v)) }

// nsError is an NSError in words: description, domain and code
// (https://developer.apple.com/documentation/foundation/nserror).
func nsError(e objc.ID) error {
	if e == 0 {
		return errors.New("no reason given by Metal")
	}
	return fmt.Errorf("%s (%s %d)", goString(send(e, "localizedDescription")),
		goString(send(e, "domain")), int(send(e, "code")))
}
