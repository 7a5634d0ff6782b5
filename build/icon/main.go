// Icon draws the app icon and the four menu-bar icons. So the icons are source code, which can be
// reviewed as a diff. Run it in the repository's root:
//
//	go run ./build/icon                 the committed PNG files
//	go run ./build/icon -icns FILE      the icon of the Mac bundle
//	go run ./build/icon -hicolor DIR    the sizes of Linux's icon theme
//
// The motif is a gauge: the filled part is solid, the free part is an outlined tube. The tray icons
// are template images (black on transparent, 44x44 px for 22 pt). macOS colours them to suit the
// menu bar and uses only their alpha channel.
package main

import (
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
)

func main() {
	file := flag.String("icns", "", "write the icon of the Mac bundle to this file instead")
	theme := flag.String("hicolor", "", "write the icons of the Linux theme to this folder instead")
	flag.Parse()
	var err error
	switch {
	case *file != "":
		var data []byte
		if data, err = icns(appIcon); err == nil {
			err = os.WriteFile(*file, data, 0o644)
		}
	case *theme != "":
		err = writeAll(hicolor(*theme))
	default:
		err = writeAll(pictures())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "icon:", err)
		os.Exit(1)
	}
}

// pictures draws every committed icon. Keys are paths from the repository's root.
func pictures() map[string]*image.NRGBA {
	return map[string]*image.NRGBA{
		"build/appicon.png":          appIcon(1024),
		"app/tray/icons/stopped.png": trayIcon(0, false),
		"app/tray/icons/loading.png": trayIcon(0.5, false),
		"app/tray/icons/ready.png":   trayIcon(1, false),
		"app/tray/icons/busy.png":    trayIcon(1, true),
	}
}

// linuxSizes are the sizes in the hicolor theme that desktops use
// (https://specifications.freedesktop.org/icon-theme-spec/latest/).
var linuxSizes = []int{16, 22, 24, 32, 48, 64, 128, 256, 512}

// hicolor draws the icons of a Linux package. Keys are their paths. They are not committed, because
// this program draws them whenever the package is built.
func hicolor(dir string) map[string]*image.NRGBA {
	all := map[string]*image.NRGBA{}
	for _, size := range linuxSizes {
		all[filepath.Join(dir, fmt.Sprintf("%dx%d", size, size), "apps", "headroom.png")] =
			appIcon(size)
	}
	return all
}

// trayIcon draws a gauge filled to a share of its length, from 0 (empty) to 1, with a dot in the
// middle when busy.
func trayIcon(share float64, busy bool) *image.NRGBA {
	const (
		size   = 44
		radius = 15.5
		width  = 9
		thick  = 2.5 // width of the outline; thinner lines vanish on a 1x display
		cx, cy = size / 2, size/2 + 3
	)
	black := plain(color.NRGBA{A: 255})
	picture := image.NewNRGBA(image.Rect(0, 0, size, size))
	gauge := tube(cx, cy, radius, width)
	paint(picture, outline(gauge, thick), black)
	switch {
	case share >= 1: // a cut would remove the round end
		paint(picture, gauge, black)
	case share > 0:
		paint(picture, filled(gauge, cx, cy, share), black)
	}
	if busy {
		paint(picture, disc(cx, cy, 5), black)
	}
	return picture
}

// appIcon draws the gauge in white on teal, size x size pixels. It draws each size from the shapes
// instead of scaling. The tile follows Apple's template: 824 of 1024 pixels, with a corner radius
// of 185.
func appIcon(size int) *image.NRGBA {
	unit := float64(size) / 1024
	rim := max(22*unit, 0.9) // px; thinner lines blur in the small sizes
	cx, cy := 512*unit, (512+51)*unit
	white := plain(color.NRGBA{255, 255, 255, 255})
	picture := image.NewNRGBA(image.Rect(0, 0, size, size))
	paint(picture, roundedSquare(512*unit, 512*unit, 824*unit, 185*unit), teal)
	gauge := tube(cx, cy, 238*unit, 120*unit)
	paint(picture, outline(gauge, rim), white)
	paint(picture, filled(gauge, cx, cy, 0.62), white)
	paint(picture, disc(cx, cy, 62*unit), white)
	return picture
}

// teal is a gradient around the accent colour #0F9D94, lighter at the top and darker at the bottom.
func teal(height float64) color.NRGBA {
	shade := func(accent float64) uint8 { return uint8(accent * (1.18 - 0.36*height)) }
	return color.NRGBA{shade(0x0F), shade(0x9D), shade(0x94), 255}
}

func writeAll(all map[string]*image.NRGBA) error {
	for name, picture := range all {
		if err := write(name, picture); err != nil {
			return err
		}
	}
	return nil
}

func write(name string, picture image.Image) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := png.Encode(file, picture); err != nil {
		file.Close()
		return fmt.Errorf("%s: %w", name, err)
	}
	return file.Close()
}
