package tray

// The icons. macOS colours template images itself. For other systems this file tints them, so that
// one set of files serves all.

import (
	"bytes"
	"embed"
	"fmt"
	"image"
	"image/color"
	"image/png"

	"headroom/app/host"
)

// files are the template images, black on transparent, drawn by build/icon.
//
//go:embed icons/*.png
var files embed.FS

// Icon is the name of an icon file.
type Icon string

// The icons.
const (
	IconStopped Icon = "stopped"
	IconLoading Icon = "loading"
	IconReady   Icon = "ready"
	IconBusy    Icon = "busy"
)

// Icons lists all icons.
var Icons = []Icon{IconStopped, IconLoading, IconReady, IconBusy}

// iconFor returns the icon of a status. A failed engine has the icon of a stopped one.
func iconFor(s host.Status) Icon {
	switch s {
	case host.Loading:
		return IconLoading
	case host.Ready:
		return IconReady
	case host.Busy:
		return IconBusy
	}
	return IconStopped
}

// Template returns the PNG for macOS, which colours it to suit the menu bar.
func (i Icon) Template() []byte {
	data, err := files.ReadFile("icons/" + string(i) + ".png")
	if err != nil {
		panic("tray: Icon.Template: there is no icon " + string(i))
	}
	return data
}

// Panels on other systems show the icon as it is, and may be light or dark. These colours have a
// contrast of at least 3:1 with both white and black.
var (
	stoppedColor = color.NRGBA{0x86, 0x91, 0x90, 0xFF} // grey
	activeColor  = color.NRGBA{0x12, 0xA5, 0x9C, 0xFF} // teal
)

// Coloured returns the PNG for the panels of other systems.
func (i Icon) Coloured() []byte {
	tint := activeColor
	if i == IconStopped {
		tint = stoppedColor
	}
	source, err := png.Decode(bytes.NewReader(i.Template()))
	if err != nil {
		panic(fmt.Sprintf("tray: Icon.Coloured: icons/%s.png: %v", i, err))
	}
	picture := image.NewNRGBA(source.Bounds())
	for y := picture.Rect.Min.Y; y < picture.Rect.Max.Y; y++ {
		for x := picture.Rect.Min.X; x < picture.Rect.Max.X; x++ {
			_, _, _, alpha := source.At(x, y).RGBA()
			tint.A = uint8(alpha >> 8)
			picture.SetNRGBA(x, y, tint)
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, picture); err != nil {
		panic("tray: Icon.Coloured: " + err.Error()) // writing to memory cannot fail
	}
	return out.Bytes()
}
