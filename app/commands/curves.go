package commands

// Curves of losses as text.

import (
	"fmt"
	"strings"
)

// point is a loss after an iteration.
type point struct {
	iteration int
	loss      float64
}

// curves are the losses of a training. None of them is NaN.
type curves struct {
	of           int // all iterations
	train, valid []point
}

// draw returns the lines of a chart with a field of width times height characters; none without
// losses. "·" is the train loss, the mean of those that share a column; "o" the validation loss.
func (c *curves) draw(width, height int) []string {
	if len(c.train)+len(c.valid) == 0 || c.of <= 0 {
		return nil
	}
	low, high := c.bounds()
	field := make([][]rune, height)
	for i := range field {
		field[i] = []rune(strings.Repeat(" ", width))
	}
	row := func(loss float64) int {
		if high == low {
			return height - 1
		}
		return int((high-loss)/(high-low)*float64(height-1) + 0.5)
	}
	column := func(iteration int) int {
		return min(max(iteration, 0), c.of) * (width - 1) / c.of
	}
	sums, counts := make([]float64, width), make([]int, width)
	for _, p := range c.train {
		sums[column(p.iteration)] += p.loss
		counts[column(p.iteration)]++
	}
	for x, n := range counts {
		if n > 0 {
			field[row(sums[x]/float64(n))][x] = '·'
		}
	}
	for _, p := range c.valid {
		field[row(p.loss)][column(p.iteration)] = 'o'
	}
	lines := []string{"Loss: · train, o validation"}
	for i, line := range field {
		label := ""
		switch i {
		case 0:
			label = fmt.Sprintf("%.3f", high)
		case height - 1:
			label = fmt.Sprintf("%.3f", low)
		}
		lines = append(lines, fmt.Sprintf("%8s │%s", label, strings.TrimRight(string(line), " ")))
	}
	last := fmt.Sprint(c.of)
	return append(lines, strings.Repeat(" ", 9)+"└"+strings.Repeat("─", width),
		strings.Repeat(" ", 10)+"0"+fmt.Sprintf("%*s", width-1, last))
}

// bounds returns the smallest and the largest loss.
func (c *curves) bounds() (low, high float64) {
	first := true
	for _, list := range [][]point{c.train, c.valid} {
		for _, p := range list {
			if first {
				low, high, first = p.loss, p.loss, false
			}
			low, high = min(low, p.loss), max(high, p.loss)
		}
	}
	return low, high
}
