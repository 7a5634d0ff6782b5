package main

import (
	"image"
	"image/color"
	"math"
)

// A shape is a signed distance field: it returns the distance in pixels from (x, y) to its edge,
// negative inside. The distance at a pixel's centre gives the coverage of the pixel, so edges are
// antialiased at every size without supersampling.
type shape func(x, y float64) float64

// disc returns a filled circle.
func disc(cx, cy, radius float64) shape {
	return func(x, y float64) float64 { return math.Hypot(x-cx, y-cy) - radius }
}

// roundedSquare returns a square with rounded corners, centred at (cx, cy).
func roundedSquare(cx, cy, side, radius float64) shape {
	half := side/2 - radius
	return func(x, y float64) float64 {
		dx, dy := math.Abs(x-cx)-half, math.Abs(y-cy)-half
		outside := math.Hypot(max(dx, 0), max(dy, 0))
		return outside + min(max(dx, dy), 0) - radius
	}
}

// Angles of the gauge in radians, clockwise from the right, since y grows downwards. The arc runs
// from the lower left over the top to the lower right.
const (
	gaugeFrom = 145 * math.Pi / 180
	gaugeTo   = 395 * math.Pi / 180
)

// tube returns the arc of the gauge, with round ends.
func tube(cx, cy, radius, width float64) shape {
	end := func(angle float64) shape {
		return disc(cx+radius*math.Cos(angle), cy+radius*math.Sin(angle), width/2)
	}
	first, last := end(gaugeFrom), end(gaugeTo)
	return func(x, y float64) float64 {
		if angle := along(x-cx, y-cy); angle >= gaugeFrom && angle <= gaugeTo {
			return math.Abs(math.Hypot(x-cx, y-cy)-radius) - width/2
		}
		return min(first(x, y), last(x, y))
	}
}

// filled returns the part of a gauge up to a share of its arc, with a straight end.
func filled(s shape, cx, cy, share float64) shape {
	cut := gaugeFrom + (gaugeTo-gaugeFrom)*share
	return func(x, y float64) float64 {
		past := along(x-cx, y-cy) - cut
		if past < -math.Pi/2 {
			return s(x, y) // far before the cut, where its line crosses the gauge a second time
		}
		return max(s(x, y), math.Hypot(x-cx, y-cy)*math.Sin(min(past, math.Pi/2)))
	}
}

// along returns the angle of a direction. The angle grows along the whole gauge, because it wraps
// in the middle of the gauge's opening.
func along(dx, dy float64) float64 {
	const middle = (gaugeFrom+gaugeTo)/2 - math.Pi
	angle := math.Atan2(dy, dx)
	for angle < middle {
		angle += 2 * math.Pi
	}
	return angle
}

// outline returns the rim of a shape: the part within thick pixels of its edge, on the inside.
func outline(s shape, thick float64) shape {
	return func(x, y float64) float64 {
		d := s(x, y)
		return max(d, -d-thick)
	}
}

// paint draws a shape on the picture. Its colour may depend on the height (0 at the top, 1 at the
// bottom), for gradients.
func paint(picture *image.NRGBA, s shape, colour func(height float64) color.NRGBA) {
	bounds := picture.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			coverage := min(max(0.5-s(float64(x)+0.5, float64(y)+0.5), 0), 1)
			if coverage > 0 {
				over := colour((float64(y) + 0.5) / float64(bounds.Dy()))
				picture.SetNRGBA(x, y, blend(picture.NRGBAAt(x, y), over, coverage))
			}
		}
	}
}

// blend composites over on under. Both have unpremultiplied alpha.
func blend(under, over color.NRGBA, coverage float64) color.NRGBA {
	a := float64(over.A) / 255 * coverage
	b := float64(under.A) / 255 * (1 - a)
	mix := func(o, u uint8) uint8 {
		return uint8(math.Round((float64(o)*a + float64(u)*b) / (a + b)))
	}
	return color.NRGBA{mix(over.R, under.R), mix(over.G, under.G), mix(over.B, under.B),
		uint8(math.Round((a + b) * 255))}
}

// plain returns a colour function for paint that ignores the height.
func plain(c color.NRGBA) func(float64) color.NRGBA {
	return func(float64) color.NRGBA { return c }
}
