package main

// Additions to systray for the Mac. The menu bar hides icons that do not fit, and since macOS 26
// the user chooses which icons it shows. So opening Headroom again, from the Finder, the Dock or
// Spotlight, opens its window.

import (
	"log/slog"

	"github.com/ebitengine/purego/objc"
)

// onReopen registers show, which is called when the user opens Headroom while it is running. macOS
// calls a method of the application's delegate, which systray's delegate does not have; onReopen
// adds it. It must be called before systray creates the delegate
// (https://developer.apple.com/documentation/appkit/nsapplicationdelegate/applicationshouldhandlereopen(_:hasvisiblewindows:)).
func onReopen(show func() error) {
	reopen := objc.NewIMP(func(objc.ID, objc.SEL, objc.ID, uintptr) uintptr {
		go func() {
			if err := show(); err != nil {
				slog.Error("the window cannot be opened", "err", err)
			}
		}()
		return 0 // NO: the system need do nothing else
	})
	delegate := objc.GetClass("AppDelegate")
	if delegate == 0 || !delegate.AddMethod(
		objc.RegisterName("applicationShouldHandleReopen:hasVisibleWindows:"), reopen, "B@:@B") {
		slog.Warn("opening Headroom again will not open its window: " +
			"systray's delegate is not the expected one")
	}
}

// nameIcon names the icon in the menu bar. The system then remembers the icon's position by its
// name, not by its number. nameIcon must be called when systray is ready
// (https://developer.apple.com/documentation/appkit/nsstatusitem/autosavename-swift.property).
func nameIcon() {
	delegate := objc.ID(objc.GetClass("NSApplication")).Send(
		objc.RegisterName("sharedApplication")).Send(objc.RegisterName("delegate"))
	field := objc.GetClass("AppDelegate").InstanceVariable("statusItem")
	if delegate == 0 || field == 0 {
		slog.Warn("the menu-bar icon has no name: systray's delegate is not the expected one")
		return
	}
	// The string is never released: the icon exists until the program ends. AppKit must be called
	// on the main thread.
	name := objc.ID(objc.GetClass("NSString")).Send(objc.RegisterName("alloc")).Send(
		objc.RegisterName("initWithUTF8String:"), "Headroom")
	delegate.GetIvar(field).Send(
		objc.RegisterName("performSelectorOnMainThread:withObject:waitUntilDone:"),
		objc.RegisterName("setAutosaveName:"), name, false)
}
