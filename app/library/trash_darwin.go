package library

// The Trash of macOS, by NSFileManager, which knows the Trash of each volume. Apple events to the
// Finder would need the user's permission, and an entitlement of the signed app.

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/ebitengine/purego/objc"
)

// foundation loads the Foundation framework.
var foundation = sync.OnceValue(func() error {
	_, err := purego.Dlopen("/System/Library/Frameworks/Foundation.framework/Foundation",
		purego.RTLD_NOW|purego.RTLD_GLOBAL)
	return err
})

// trashed moves path to the Trash; a link without its target
// (https://developer.apple.com/documentation/foundation/filemanager/trashitem(at:resultingitemurl:)).
func trashed(path string) error {
	if err := foundation(); err != nil {
		return err
	}
	runtime.LockOSThread() // autorelease pools belong to threads
	defer runtime.UnlockOSThread()
	pool := objc.ID(objc.GetClass("NSAutoreleasePool")).Send(objc.RegisterName("new"))
	defer pool.Send(objc.RegisterName("drain"))

	name := objc.ID(objc.GetClass("NSString")).Send(objc.RegisterName("stringWithUTF8String:"),
		path)
	if name == 0 {
		return fmt.Errorf("the path %q is not valid UTF-8", path)
	}
	url := objc.ID(objc.GetClass("NSURL")).Send(objc.RegisterName("fileURLWithPath:"), name)
	manager := objc.ID(objc.GetClass("NSFileManager")).Send(objc.RegisterName("defaultManager"))
	problem := new(objc.ID)
	if objc.Send[bool](manager, objc.RegisterName("trashItemAtURL:resultingItemURL:error:"), url,
		objc.ID(0), unsafe.Pointer(problem)) {
		return nil
	}
	if *problem == 0 {
		return errors.New("NSFileManager gives no reason")
	}
	return errors.New(objc.Send[string](problem.Send(objc.RegisterName("localizedDescription")),
		objc.RegisterName("UTF8String")))
}
