package main

// The zoom of a Mac's web view, which Wails does not offer: WKWebView.pageZoom
// (https://developer.apple.com/documentation/webkit/wkwebview/pagezoom). Unlike CSS, it changes the
// width that the page's rules for narrow windows see.

import "github.com/ebitengine/purego/objc"

// setZoom sets the zoom of all web views of the program: there is one. AppKit must be called on the
// main thread.
func setZoom(factor float64) bool {
	class := objc.GetClass("WKWebView")
	if class == 0 {
		return false
	}
	onMainThread(func() {
		app := objc.ID(objc.GetClass("NSApplication")).Send(objc.RegisterName("sharedApplication"))
		windows := app.Send(objc.RegisterName("windows"))
		for i := range objc.Send[uint](windows, objc.RegisterName("count")) {
			window := windows.Send(objc.RegisterName("objectAtIndex:"), i)
			zoomWithin(window.Send(objc.RegisterName("contentView")), class, factor)
		}
	})
	return true
}

// zoomWithin sets the zoom of the web views in a view.
func zoomWithin(view objc.ID, class objc.Class, factor float64) {
	if view == 0 {
		return
	}
	if objc.Send[bool](view, objc.RegisterName("isKindOfClass:"), class) {
		view.Send(objc.RegisterName("setPageZoom:"), factor)
		return
	}
	inside := view.Send(objc.RegisterName("subviews"))
	for i := range objc.Send[uint](inside, objc.RegisterName("count")) {
		zoomWithin(inside.Send(objc.RegisterName("objectAtIndex:"), i), class, factor)
	}
}
