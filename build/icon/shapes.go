package main

import (
	"image"
	"image/color"
	"math"
)

// A shape is a signed distance field: the distance in pixels from (x, y) to its edge, negative
// inside. Coverage of a pixel follows from the distance at its centre, which gives clean edges at
// every size without drawing larger first.
type shape func(x, y float64) float64

// disc is a filled circle.
func disc(cx, cy, radius float64) shape {
	return func(x, y float64) float64 { return math.Hypot(x-cx, y-cy) - radius }
}

// roundedSquare is a square of side `side` around (cx, cy).
func roundedSquare(cx, cy, side, radius float64) shape {
	half := side/2 - radius
	return func(x, y float64) float64 {
		dx, dy := math.Abs(x-cx)-half, math.Abs(y-cy)-half
		outside := math.Hypot(max(dx, 0), max(dy, 0))
		return outside + min(max(dx, dy), 0) - radius
	}
}

// Angles of the gauge in radians, clockwise from pointing right (y grows downwards): it opens at
// the bottom, from lower left over the top to lower right.
const (
	gaugeFrom = 145 * math.Pi / 180
	gaugeTo   = 395 * math.Pi / 180
)

// tube is the whole arc of the gauge, with round ends.
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

// filled is the part of a gauge's shape up to a share of its arc, cut straight across.
func filled(s shape, cx, cy, share float64) shape {
	cut := gaugeFrom + (gaugeTo-gaugeFrom)*share
	return func(x, y float64) float64 {
		past := along(x-cx, y-cy) - cut
		if past < -math.Pi/2 {
			return s(x, y) // far before the cut, where its line is no bound
		}
		return max(s(x, y), math.Hypot(x-cx, y-cy)*math.Sin(min(past, math.Pi/2)))
	}
}

// along is the angle of a direction, counted so that it grows along the whole gauge: it wraps in
// the middle of the opening.
func along(dx, dy float64) float64 {
	const middle = (gaugeFrom+gaugeTo)/2 - math.Pi
	angle := math.Atan2(dy, dx)
	for angle < middle {
		angle += 2 * math.Pi
	}
	return angle
}

// outline is the rim of a shape, `thick` pixels wide, inside its edge.
func outline(s shape, thick float64) shape {
	return func(x, y float64) float64 {
		d := s(x, y)
		return max(d, -d-thick)
	}
}

// paint lays a colour over the picture wherever the shape is. The colour may depend on the height
// (0 is the top, 1 the bottom), for gradients.
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

// blend lays `over` on `under`, both with unpremultiplied colour.
func blend(under, over color.NRGBA, coverage float64) color.NRGBA {
	a := float64(over.A) / 255 * coverage
	b := float64(under.A) / 255 * (1 - a)
	mix := func(o, u uint8) uint8 {
		return uint8(
			math.Round((float64(o)*a + float64(u)*b) / (a + b)))
	}
	return color.NRGBA{mix(over.R, under.R), mix(over.G, under.G), mix(over.B, under.B),
		uint8(math.Round((a + b) * 255))}
}

func plain(c color.NRGBA) func(
	float64) color.NRGBA {
	return func(float64) color.NRGBA { return c }
}
