package library

// A Mac's trash by the system's file manager, which knows the trash of each volume. The Finder
// could do it too, by Apple events, but those need a permission that people are asked for, and a
// signed app an entitlement.

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/ebitengine/purego/objc"
)

// foundation opens the library of NSFileManager.
var foundation = sync.OnceValue(func() error {
	_, err := purego.Dlopen("/System/Library/Frameworks/Foundation.framework/Foundation",
		purego.RTLD_NOW|purego.RTLD_GLOBAL)
	return err
})

// trashed moves what lies at path to the trash; a link without what it leads to
// (https://developer.apple.com/documentation/foundation/filemanager/trashitem(at:resultingitemurl:)).
func trashed(path string) error {
	if err := foundation(); err != nil {
		return err
	}
	runtime.LockOSThread() // pools belong to threads
	defer runtime.UnlockOSThread()
	pool := objc.ID(objc.GetClass("NSAutoreleasePool")).Send(objc.RegisterName("new"))
	defer pool.Send(objc.RegisterName("drain"))

	name := objc.ID(objc.GetClass("NSString")).Send(objc.RegisterName("stringWithUTF8String:"),
		path)
	if name == 0 {
		return fmt.Errorf("the path %q is no UTF-8", path)
	}
	url := objc.ID(objc.GetClass("NSURL")).Send(objc.RegisterName("fileURLWithPath:"), name)
	manager := objc.ID(objc.GetClass("NSFileManager")).Send(objc.RegisterName("defaultManager"))
	problem := new(objc.ID)
	if objc.Send[bool](manager, objc.RegisterName("trashItemAtURL:resultingItemURL:error:"), url,
		objc.ID(0), unsafe.Pointer(problem)) {
		return nil
	}
	if *problem == 0 {
		return errors.New("the file manager says no, and not why")
	}
	return errors.New(objc.Send[string](problem.Send(objc.RegisterName("localizedDescription")),
		objc.RegisterName("UTF8String")))
}
