package main

// What systray leaves out on a Mac. Since macOS 26 people choose which icons the menu bar shows,
// and it may hide one for want of room; so there is a way in that needs none: opening Headroom
// again, in the Finder, the Dock or by Spotlight, opens its window.

import (
	"log/slog"

	"github.com/ebitengine/purego/objc"
)

// onReopen has show called when somebody opens Headroom while it runs. The system asks the
// application's delegate then, which is systray's and has no such method; it gets one here. To be
// called before systray makes the delegate
// (https://developer.apple.com/documentation/appkit/nsapplicationdelegate/applicationshouldhandlereopen(_:hasvisiblewindows:)).
func onReopen(show func() error) {
	asked := objc.NewIMP(func(objc.ID, objc.SEL, objc.ID, uintptr) uintptr {
		go func() {
			if err := show(); err != nil {
				slog.Error("opening the window", "err", err)
			}
		}()
		return 0 // NO: there is nothing for the system to do
	})
	delegate := objc.GetClass("AppDelegate")
	if delegate == 0 || !delegate.AddMethod(
		objc.RegisterName("applicationShouldHandleReopen:hasVisibleWindows:"), asked, "B@:@B") {
		slog.Warn(
			"opening Headroom again will not open its window: systray has another delegate than " +
				"expected")
	}
}

// nameIcon names the icon in the menu bar, so that the system remembers its place by that name and
// not by its number. To be called when systray is ready
// (https://developer.apple.com/documentation/appkit/nsstatusitem/autosavename-swift.property).
func nameIcon() {
	delegate := objc.ID(objc.GetClass("NSApplication")).Send(
		objc.RegisterName("sharedApplication")).Send(objc.RegisterName("delegate"))
	field := objc.GetClass("AppDelegate").InstanceVariable("statusItem")
	if delegate == 0 || field == 0 {
		slog.Warn("the icon in the menu bar has no name: systray keeps it elsewhere than expected")
		return
	}
	// Never released: there is one, for good. On the main thread, as everything of AppKit.
	name := objc.ID(objc.GetClass("NSString")).Send(objc.RegisterName("alloc")).Send(
		objc.RegisterName("initWithUTF8String:"), "Headroom")
	delegate.GetIvar(field).Send(
		objc.RegisterName("performSelectorOnMainThread:withObject:waitUntilDone:"),
		objc.RegisterName("setAutosaveName:"), name, false)
}
