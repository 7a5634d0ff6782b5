package bench

// Reports as text: Markdown for people, lines of Go's benchmark format for benchstat.

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"headroom/engine/problem"
)

// Markdown writes a report as a table, with the machine above it.
func (r *Report) Markdown(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString(filled(r.preface()))
	b.WriteString("\n| | figure | ceiling | share | target | |\n|---|--:|--:|--:|--:|---|\n")
	model := ""
	for _, row := range r.Rows() {
		if row.Model != model {
			model = row.Model
			fmt.Fprintf(&b, "| **%s** | | | | | |\n", model)
		}
		ceiling, share, target, met := "", "", "", ""
		if row.Ceiling > 0 {
			ceiling, share = number(row.Ceiling)+", "+row.Bound,
				fmt.Sprintf("%.0f %%", 100*row.Share)
		}
		if row.Target != nil {
			target, met = row.Target.words(row.Unit), "missed"
			if *row.Met {
				met = "met"
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", row.What, figure(row.Value, row.Unit),
			ceiling, share, target, met)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// preface returns the sentences above the table: version, machine, ceilings and load.
func (r *Report) preface() string {
	m := &r.Machine
	text := "Headroom " + r.Version + " on " + r.Date.Format("2 January 2006") + ", " + m.System
	if m.Processor != "" {
		text += ", " + m.Processor
	}
	text += ", " + plural(m.Cores, "core")
	if len(r.Parts) > 0 {
		text += "; " + r.Parts[0].Device
	}
	text += ". " + r.ceilings()
	text += fmt.Sprintf(" Load average %.1f before and %.1f after.", m.Load[0], m.Load[1])
	if m.busy() {
		text += " **Other processes were running on this machine, so the figures are too low.**"
	}
	return text + " Medians; random weights."
}

// filled breaks text into lines of at most 100 characters.
func filled(text string) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0:
		case column+1+len(word) > 100:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String() + "\n"
}

// ceilings returns a sentence with the machine's ceilings, from the slowest to the fastest group.
func (r *Report) ceilings() string {
	between := func(of func(Ceilings) float64, unit string) string {
		low, high := 0.0, 0.0
		for i, p := range r.Parts {
			v := of(p.Ceilings) / 1e9
			if i == 0 || v < low {
				low = v
			}
			high = max(high, v)
		}
		switch {
		case high == 0:
			return ""
		case number(low) == number(high):
			return number(high) + " " + unit
		}
		return number(low) + " to " + number(high) + " " + unit
	}
	var words []string
	for _, c := range []struct{ what, figures string }{
		{"memory reads at ", between(func(c Ceilings) float64 { return c.ReadBytes }, "GB/s")},
		{"int8 products run at ", between(func(c Ceilings) float64 { return c.Int8Ops }, "Gop/s")},
		{"float32 products at ",
			between(func(c Ceilings) float64 { return c.Float32Ops }, "GFLOP/s")},
	} {
		if c.figures != "" {
			words = append(words, c.what+c.figures)
		}
	}
	if len(words) == 0 {
		return "The ceilings of this device are unknown."
	}
	text := strings.Join(words, ", ")
	return strings.ToUpper(text[:1]) + text[1:] +
		"; these are measured before and after each sample, and given as the median of each " +
		"group. A share is the median of its samples' shares."
}

func (t *Target) words(unit string) string {
	switch {
	case t.Share > 0:
		return fmt.Sprintf("%.0f %%", 100*t.Share)
	case t.AtMost > 0:
		return "at most " + figure(t.AtMost, unit)
	}
	return "at least " + figure(t.AtLeast, unit)
}

// figure formats a value with its unit, ratios as factors.
func figure(v float64, unit string) string {
	if unit == unitRatio || unit == unitTimes {
		return fmt.Sprintf("%.2f x", v)
	}
	return number(v) + " " + unit
}

// number formats three significant digits.
func number(v float64) string {
	switch {
	case v >= 1000:
		return thousands(int(v + 0.5))
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// thousands formats 16384 as 16,384.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// megabytes formats a size in decimal megabytes.
func megabytes(bytes int64) string { return number(float64(bytes)/1e6) + " MB" }

// The lines before and after the table in a document.
const (
	tableBegins = "<!-- bench: the table that `headroom bench --readme` writes -->"
	tableEnds   = "<!-- bench: end of the table -->"
)

// Replace puts the report's table between the marks of a document, and returns the new document.
func (r *Report) Replace(document []byte) ([]byte, error) {
	before, rest, ok := bytes.Cut(document, []byte(tableBegins))
	_, after, closed := bytes.Cut(rest, []byte(tableEnds))
	if !ok || !closed {
		return nil, problem.New(problem.BadRequest, "The document has no place for the table",
			"the lines "+tableBegins+" and "+tableEnds+" mark it", "")
	}
	var b bytes.Buffer
	b.Write(before)
	b.WriteString(tableBegins + "\n\n")
	if err := r.Markdown(&b); err != nil {
		return nil, err
	}
	b.WriteString("\n" + tableEnds)
	b.Write(after)
	return b.Bytes(), nil
}

// GoBench writes every sample as a line of Go's benchmark format, which benchstat compares.
func (r *Report) GoBench(w io.Writer) error {
	var b bytes.Buffer
	for _, unit := range []string{unitSpeed, unitRate, unitRatio} {
		fmt.Fprintf(&b, "Unit %s better=higher\n", unit)
	}
	for _, unit := range []string{unitSeconds, unitPercent, unitTimes} {
		fmt.Fprintf(&b, "Unit %s better=lower\n", unit)
	}
	for _, row := range r.Rows() {
		for _, v := range row.Samples {
			// benchstat would read -8 as GOMAXPROCS.
			fmt.Fprintf(&b, "BenchmarkHeadroom/%s 1 %g %s\n", strings.ReplaceAll(row.ID, "-", "_"),
				v, row.Unit)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}
