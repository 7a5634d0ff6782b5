package commands

// The progress of a training. Lines of losses, and on a terminal beneath them the curves and a line
// that changes.

import (
	"fmt"
	"io"
	"strings"
	"time"

	"headroom/app/train"
)

// redrawEvery is the shortest time between two drawings for iterations alone.
const redrawEvery = 100 * time.Millisecond

// trainView shows the progress.
type trainView struct {
	out        io.Writer
	onTerminal bool
	curves     curves
	report     string // what the latest report says beside its loss
	drawn      int    // lines of the drawing that are on the screen
	drawnAt    time.Time
}

// before takes the reports of earlier runs.
func (v *trainView) before(events []train.Event) {
	for _, e := range events {
		v.line(train.Progress{Event: e, Done: e.Iteration})
	}
	v.report = ""
}

func (v *trainView) show(p train.Progress) {
	text := v.line(p)
	if !v.onTerminal {
		if text != "" {
			fmt.Fprintln(v.out, text)
		}
		return
	}
	if p.Kind == "iteration" && time.Since(v.drawnAt) < redrawEvery {
		return
	}
	v.clear()
	if text != "" && p.Kind != "train" { // the curve has the reports
		fmt.Fprintln(v.out, text)
	}
	v.draw(p)
}

// line returns the line for an event, "" for none, and keeps what the drawing needs.
func (v *trainView) line(p train.Progress) string {
	at := fmt.Sprintf("Iteration %d of %d: ", p.Done, p.Of)
	switch p.Kind {
	case "started":
		v.curves.of = p.Of
		return fmt.Sprintf("Iterations %d to %d.", p.Iteration+1, p.Iterations)
	case "train":
		if p.TrainLoss == nil {
			return ""
		}
		v.curves.train = append(v.curves.train, point{p.Done, *p.TrainLoss})
		v.report = fmt.Sprintf("train loss %.3f, learning rate %.3g, %.3g iterations/s, "+
			"%.0f tokens/s, peak memory %.3f GB", *p.TrainLoss, p.LearningRate, p.PerSecond,
			p.TokensSecond, p.PeakGB)
		return at + fmt.Sprintf("%s, %d tokens trained%s", v.report, p.TrainedTokens, left(p))
	case "valid":
		if p.ValidLoss == nil {
			return at + "the validation loss is no number"
		}
		v.curves.valid = append(v.curves.valid, point{p.Done, *p.ValidLoss})
		return at + fmt.Sprintf("validation loss %.3f", *p.ValidLoss)
	case "test":
		if p.TestLoss == nil {
			return "The test loss is no number."
		}
		return fmt.Sprintf("Test loss: %.3f", *p.TestLoss)
	case "saved":
		return at + "saved " + printable(p.File)
	}
	return ""
}

// left returns the time until the end in words, "" if it is not known.
func left(p train.Progress) string {
	if p.Left <= 0 {
		return ""
	}
	end := time.Now().Add(p.Left)
	text := ", " + p.Left.Round(time.Second).String() + " left"
	if p.Left > 10*time.Minute {
		text += ", until " + end.Format("15:04")
	}
	return text
}

func (v *trainView) draw(p train.Progress) {
	lines := v.curves.draw(60, 8)
	status := fmt.Sprintf("Iteration %d of %d%s", p.Done, p.Of, left(p))
	if v.report != "" {
		lines = append(lines, clip(v.report, 100))
	}
	lines = append(lines, status)
	fmt.Fprint(v.out, strings.Join(lines, "\n"))
	v.drawn, v.drawnAt = len(lines), time.Now()
}

// clear removes the drawing.
func (v *trainView) clear() {
	if v.drawn > 1 {
		fmt.Fprintf(v.out, "\x1b[%dA", v.drawn-1)
	}
	if v.drawn > 0 {
		fmt.Fprint(v.out, "\r\x1b[J")
	}
	v.drawn = 0
}

// end leaves the last drawing on the screen.
func (v *trainView) end() {
	if v.drawn > 0 {
		fmt.Fprintln(v.out)
	}
	v.drawn = 0
}
