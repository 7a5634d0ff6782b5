package selftest

// What tuning measured, as a part of the report.

import (
	"fmt"
	"slices"
	"time"

	"headroom/kernels/tune"
)

// writeTuned prints what Tune has measured.
func (r *Report) writeTuned(w *printer) {
	t := r.Tuned
	if t == nil {
		return
	}
	w.line("")
	w.line("tuned in %s: %d choices measured, %d better than the usual value%s",
		t.Took.Round(100*time.Millisecond), len(t.Measured), len(t.Kept),
		map[bool]string{true: "; the time was over before all were measured"}[t.Late])
	rows := []string{"choice\toperator\tshape\tusual\tbest\tgain\tµs of each value"}
	for _, m := range t.Measured {
		rows = append(rows, tunedRow(&m))
	}
	w.table(rows)
}

func tunedRow(m *tune.Measured) string {
	var values []int
	for v := range m.Seconds {
		values = append(values, v)
	}
	slices.Sort(values)
	times := ""
	for _, v := range values {
		times += fmt.Sprintf(" %d: %.1f", v, m.Seconds[v]*1e6)
	}
	return fmt.Sprintf("%s\t%s\t%v\t%d\t%d\t%.2f\t%s", m.Choice.Name, m.Operator, m.Shape,
		m.Untuned, m.Best, m.Gain(), times)
}
