package notify

// A Mac's notifications (https://developer.apple.com/documentation/usernotifications), called
// through the Objective-C runtime without cgo. macOS asks for permission when the first notice is
// shown.
//
// Outside an app bundle, currentNotificationCenter throws an exception, which ends the program,
// even if the executable has a bundle identifier. So newCenter checks the identifier and the folder
// first.

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/ebitengine/purego/objc"
)

// New returns the service of the system.
func New() Service {
	if c, err := currentCenter(); err == nil {
		return c
	}
	return script{}
}

// center is a UNUserNotificationCenter whose delegate reports clicks. A process has one.
type center struct {
	id objc.ID

	mu      sync.Mutex
	clicked map[string]func() // by Notice.Key
}

// Values of UNAuthorizationOptions and UNNotificationPresentationOptions.
const (
	authorizationSound = 1 << 1
	authorizationAlert = 1 << 2
	presentationList   = 1 << 3
	presentationBanner = 1 << 4
)

// defaultAction is the value of UNNotificationDefaultActionIdentifier: a click on the notice.
const defaultAction = "com.apple.UNNotificationDefaultActionIdentifier"

var currentCenter = sync.OnceValues(newCenter)

func newCenter() (*center, error) {
	for _, path := range []string{
		"/System/Library/Frameworks/Foundation.framework/Foundation",
		"/System/Library/Frameworks/UserNotifications.framework/UserNotifications",
	} {
		if _, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL); err != nil {
			return nil, fmt.Errorf("loading %s: %w", path, err)
		}
	}
	var c *center
	var err error
	inPool(func() {
		bundle := send(class("NSBundle"), "mainBundle")
		identifier, path := goString(send(bundle, "bundleIdentifier")),
			goString(send(bundle, "bundlePath"))
		if identifier == "" || !strings.HasSuffix(strings.ToLower(path), ".app") {
			err = fmt.Errorf("%s is not an app's bundle", path)
			return
		}
		c = &center{id: send(send(class("UNUserNotificationCenter"), "currentNotificationCenter"),
			"retain"), clicked: map[string]func(){}}
		err = c.delegate()
	})
	return c, err
}

// delegate makes the center report clicks, and show notices even while the window is in front
// (https://developer.apple.com/documentation/usernotifications/unusernotificationcenterdelegate).
func (c *center) delegate() error {
	made, err := objc.RegisterClass("HeadroomNotificationDelegate", objc.GetClass("NSObject"), nil,
		nil, []objc.MethodDef{
			{Cmd: objc.RegisterName(
				"userNotificationCenter:didReceiveNotificationResponse:withCompletionHandler:"),
				Fn: func(_ objc.ID, _ objc.SEL, _, response objc.ID, handled objc.Block) {
					c.handleClick(goString(send(response, "actionIdentifier")),
						goString(send(send(send(response, "notification"), "request"),
							"identifier")))
					invoke(handled)
				}},
			{Cmd: objc.RegisterName(
				"userNotificationCenter:willPresentNotification:withCompletionHandler:"),
				Fn: func(_ objc.ID, _ objc.SEL, _, _ objc.ID, present objc.Block) {
					invoke(present, presentationList|presentationBanner)
				}},
		})
	if err != nil {
		return fmt.Errorf("registering the class of the delegate: %w", err)
	}
	// The center does not retain its delegate; this one is never released.
	send(c.id, "setDelegate:", send(objc.ID(made), "new"))
	return nil
}

func (c *center) handleClick(action, key string) {
	c.mu.Lock()
	clicked := c.clicked[key]
	delete(c.clicked, key)
	c.mu.Unlock()
	if action == defaultAction && clicked != nil {
		go clicked()
	}
}

func (c *center) Show(n Notice, clicked func()) error {
	c.mu.Lock()
	c.clicked[n.Key] = clicked
	c.mu.Unlock()
	// macOS asks the user only once and then repeats the decision.
	granted := objc.NewBlock(func(_ objc.Block, granted bool, _ objc.ID) {
		if granted {
			c.add(n)
		}
	})
	defer granted.Release() // the center retains it
	inPool(func() {
		send(c.id, "requestAuthorizationWithOptions:completionHandler:",
			authorizationAlert|authorizationSound, granted)
	})
	return nil
}

// add passes a notice to the center
// (https://developer.apple.com/documentation/usernotifications/unnotificationrequest).
func (c *center) add(n Notice) {
	inPool(func() {
		content := send(send(class("UNMutableNotificationContent"), "new"), "autorelease")
		send(content, "setTitle:", nsString(n.Title))
		send(content, "setBody:", nsString(n.Body+" "+n.Hint))
		const now, noHandler = objc.ID(0), objc.ID(0)
		request := send(class("UNNotificationRequest"), "requestWithIdentifier:content:trigger:",
			nsString(n.Key), content, now)
		send(c.id, "addNotificationRequest:withCompletionHandler:", request, noHandler)
	})
}

func (c *center) Close() {
	c.mu.Lock()
	clear(c.clicked)
	c.mu.Unlock()
	inPool(func() { send(c.id, "removeAllDeliveredNotifications") })
}

func class(name string) objc.ID { return objc.ID(objc.GetClass(name)) }

func send(to objc.ID, selector string, arguments ...any) objc.ID {
	return to.Send(objc.RegisterName(selector), arguments...)
}

// nsString returns an autoreleased copy.
func nsString(s string) objc.ID {
	return send(class("NSString"), "stringWithUTF8String:", strings.ReplaceAll(s, "\x00", " "))
}

// goString returns a copy of an NSString, "" for nil.
func goString(s objc.ID) string {
	if s == 0 {
		return ""
	}
	return objc.Send[string](s, objc.RegisterName("UTF8String"))
}

// invoke calls a block that the system made; objc.Block.Invoke can call only blocks made in Go. The
// address of its function is the fourth field (https://clang.llvm.org/docs/Block-ABI-Apple.html).
func invoke(block objc.Block, arguments ...uintptr) {
	if block == 0 {
		return
	}
	type layout struct {
		class           uintptr
		flags, reserved int32
		function        uintptr
	}
	literal := *(**layout)(unsafe.Pointer(&block))
	purego.SyscallN(literal.function, append([]uintptr{uintptr(block)}, arguments...)...)
}

var pool = sync.OnceValues(func() (push func() uintptr, pop func(uintptr)) {
	library, err := purego.Dlopen("/usr/lib/libobjc.A.dylib", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		panic("notify: loading libobjc: " + err.Error()) // every Mac has it
	}
	purego.RegisterLibFunc(&push, library, "objc_autoreleasePoolPush")
	purego.RegisterLibFunc(&pop, library, "objc_autoreleasePoolPop")
	return push, pop
})

// inPool runs f with an autorelease pool. A pool belongs to a thread, so the goroutine is locked to
// its thread meanwhile.
func inPool(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	push, pop := pool()
	mark := push()
	defer pop(mark)
	f()
}
