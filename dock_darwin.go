package main

import "github.com/ebitengine/purego/objc"

// setBadge sets the label of the application's Dock tile. AppKit wants that on the main thread, and
// Wails calls methods of Go on others
// (https://developer.apple.com/documentation/appkit/nsdocktile/badgelabel).
func setBadge(text string) {
	tile := objc.ID(objc.GetClass("NSApplication")).Send(objc.RegisterName("sharedApplication")).
		Send(objc.RegisterName("dockTile"))
	label := objc.ID(objc.GetClass("NSString")).Send(objc.RegisterName("alloc")).
		Send(objc.RegisterName("initWithUTF8String:"), text)
	// The call retains the label until it was shown.
	tile.Send(objc.RegisterName("performSelectorOnMainThread:withObject:waitUntilDone:"),
		objc.RegisterName("setBadgeLabel:"), label, false)
	label.Send(objc.RegisterName("release"))
}
