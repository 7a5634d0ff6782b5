package main

// The main thread of a Mac, on which AppKit must be called, and the row of its menu that Wails
// cannot place.

import (
	"github.com/ebitengine/purego"
	"github.com/ebitengine/purego/objc"
)

// onMainThread runs f on the main thread, later. It returns false if that is not possible.
func onMainThread(f func()) bool {
	system, err := purego.Dlopen("/usr/lib/libSystem.B.dylib", purego.RTLD_LAZY|purego.RTLD_GLOBAL)
	if err != nil {
		return false
	}
	queue, err := purego.Dlsym(system, "_dispatch_main_q")
	if err != nil {
		return false
	}
	var async func(queue uintptr, block objc.Block)
	purego.RegisterLibFunc(&async, system, "dispatch_async")
	var block objc.Block
	block = objc.NewBlock(func(objc.Block) {
		f()
		block.Release()
	})
	async(queue, block)
	return true
}

// placeSettings moves the row of Settings from the File menu to the application's menu, after
// About and its separator. Wails builds that menu itself. If the menus are not as expected, the row
// stays where it is.
func placeSettings() {
	onMainThread(func() {
		at := func(menu objc.ID, i int) objc.ID {
			return menu.Send(objc.RegisterName("itemAtIndex:"), i)
		}
		count := func(menu objc.ID) int {
			return objc.Send[int](menu, objc.RegisterName("numberOfItems"))
		}
		app := objc.ID(objc.GetClass("NSApplication")).Send(objc.RegisterName("sharedApplication"))
		bar := app.Send(objc.RegisterName("mainMenu"))
		if bar == 0 || count(bar) < 2 {
			return
		}
		submenu := objc.RegisterName("submenu")
		own, file := at(bar, 0).Send(submenu), at(bar, 1).Send(submenu)
		if own == 0 || file == 0 || count(own) < 2 {
			return
		}
		for i := range count(file) {
			item := at(file, i)
			key := item.Send(objc.RegisterName("keyEquivalent"))
			if objc.Send[string](key, objc.RegisterName("UTF8String")) != settingsKey {
				continue
			}
			item.Send(objc.RegisterName("retain"))
			file.Send(objc.RegisterName("removeItem:"), item)
			file.Send(objc.RegisterName("removeItemAtIndex:"), i) // the separator after it
			own.Send(objc.RegisterName("insertItem:atIndex:"), item, 2)
			separator := objc.ID(objc.GetClass("NSMenuItem")).Send(
				objc.RegisterName("separatorItem"))
			own.Send(objc.RegisterName("insertItem:atIndex:"), separator, 3)
			item.Send(objc.RegisterName("release"))
			return
		}
	})
}
