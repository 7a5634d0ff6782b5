package main

import (
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"testing"
)

// TestCommittedIcons checks that the committed icons are the ones that the program draws.
func TestCommittedIcons(t *testing.T) {
	for name, want := range pictures() {
		file, err := os.Open(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatalf("%v. Run: go run ./build/icon", err)
		}
		defer file.Close()
		decoded, err := png.Decode(file)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := image.NewNRGBA(decoded.Bounds())
		draw.Draw(got, got.Bounds(), decoded, decoded.Bounds().Min, draw.Src)
		// Fused multiply-add may round differently on other processors.
		if difference := maxDifference(got, want); difference > 2 {
			t.Errorf("%s differs from the drawing by up to %d of 255. Run: go run ./build/icon",
				name, difference)
		}
	}
}

// TestTrayIcons checks that the template images are black with alpha and clear corners, and that
// each state paints more than the one before.
func TestTrayIcons(t *testing.T) {
	painted := -1
	for _, name := range []string{"stopped", "loading", "ready", "busy"} {
		picture := pictures()["app/tray/icons/"+name+".png"]
		if size := picture.Bounds().Size(); size != image.Pt(44, 44) {
			t.Errorf("%s: %v px, want 44x44", name, size)
		}
		sum := 0
		for y := range 44 {
			for x := range 44 {
				c := picture.NRGBAAt(x, y)
				if c.R|c.G|c.B != 0 {
					t.Fatalf("%s: colour %v at %d,%d, want black", name, c, x, y)
				}
				sum += int(c.A)
			}
		}
		for _, corner := range []image.Point{{0, 0}, {43, 0}, {0, 43}, {43, 43}} {
			if picture.NRGBAAt(corner.X, corner.Y).A != 0 {
				t.Errorf("%s: corner %v is painted", name, corner)
			}
		}
		if sum <= painted {
			t.Errorf("%s: %d painted, want more than the state before (%d)", name, sum, painted)
		}
		painted = sum
	}
}

// TestFilled checks that a share of one half paints the left half of the gauge only.
func TestFilled(t *testing.T) {
	picture := image.NewNRGBA(image.Rect(0, 0, 100, 100))
	paint(picture, filled(tube(50, 50, 40, 10), 50, 50, 0.5), plain(color.NRGBA{A: 255}))
	for _, c := range []struct {
		x, y int
		want uint8
	}{{10, 50, 255}, {45, 10, 255}, {55, 10, 0}, {90, 50, 0}, {50, 50, 0}, {50, 90, 0}} {
		if got := picture.NRGBAAt(c.x, c.y).A; got != c.want {
			t.Errorf("alpha %d at %d,%d, want %d", got, c.x, c.y, c.want)
		}
	}
}

// maxDifference returns the greatest difference of a channel of a pixel, 255 for different sizes.
func maxDifference(a, b *image.NRGBA) int {
	if a.Bounds() != b.Bounds() {
		return 255
	}
	most := 0
	for i := range a.Pix {
		most = max(most, int(a.Pix[i])-int(b.Pix[i]), int(b.Pix[i])-int(a.Pix[i]))
	}
	return most
}
